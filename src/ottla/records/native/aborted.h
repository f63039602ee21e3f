/*
 * The aborted transactions of a run of batches, for a reader of committed records: Fetch lists them as pairs of
 * producer id and first offset, and an abort marker in the run ends each.
 */
#ifndef OTTLA_ABORTED_H
#define OTTLA_ABORTED_H

#include "module.h"

typedef struct {
    const uint8_t *pairs; /* of int64 each: producer id, first offset; by first offset */
    Py_ssize_t count, seen;
    int64_t *aborting; /* producers whose open transaction ends in an abort; room for `count` */
    Py_ssize_t aborting_count;
} AbortedTransactions;

/* 0, or -1 with a Python error. `release_aborted` gives the memory back. */
int take_aborted(AbortedTransactions *aborted, const Py_buffer *pairs);
void release_aborted(AbortedTransactions *aborted);

/* Takes note of the transactions that began up to this whole batch of `size` bytes. 1 where it belongs to an aborted
 * one, else 0. */
int belongs_to_aborted(AbortedTransactions *aborted, const uint8_t *batch, Py_ssize_t size, int64_t last_offset);

#endif
