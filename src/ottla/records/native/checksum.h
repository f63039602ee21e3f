/* CRC-32C (Castagnoli), which every batch carries over all that follows it in its header. */
#ifndef OTTLA_CHECKSUM_H
#define OTTLA_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of bytes that follow others whose CRC is `before`; 0 where there are none. */
uint32_t crc32c(uint32_t before, const uint8_t *at, size_t size);

#endif
