// Writes files until memory is used up: with many names, in deep directories, and with long
// contents.
// expect: memory_limit_exceeded or cpu_limit_exceeded
// flags: nodejs_compat
// limits: cpu_ms=2000 memory_mib=24
// requests: 3
import fs from 'node:fs';
export default {
  fetch() {
    let path = '/tmp';
    for (let i = 0; i < 200; i++) fs.mkdirSync((path += `/${i}`));
    for (let i = 0; ; i++) fs.writeFileSync(`${path}/${i}`, new Uint8Array(i % 2 ? 1 << 20 : 1));
  },
};
