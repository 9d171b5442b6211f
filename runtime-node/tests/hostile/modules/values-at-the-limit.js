// Exceeds the CPU limit in a module that is evaluated between JSON, text and bytes modules.
// expect: start cpu_limit_exceeded
// limits: startup_ms=100
// many: 100
import './loop.js';
import './many/1.json';
import './many/2.txt';
import './many/3.bin';
export default { fetch() {} };
// module: loop.js
import './many/4.json';
for (;;);
