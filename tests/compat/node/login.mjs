// What clients are given beside the brokers' address: the login in OTTLA_COMPAT_LOGIN, if the brokers ask for one.
import { readFileSync } from "node:fs";

const given = process.env.OTTLA_COMPAT_LOGIN;
const login = given ? JSON.parse(given) : undefined;
const trusted = login && { ca: [readFileSync(login.trusted)] };
const sasl = login && { mechanism: login.mechanism, username: login.user, password: login.password };

export const forKafkajs = login ? { ssl: trusted, sasl: { ...sasl, mechanism: login.mechanism.toLowerCase() } } : {};
export const forPlatformatic = login ? { tls: trusted, sasl } : {};
