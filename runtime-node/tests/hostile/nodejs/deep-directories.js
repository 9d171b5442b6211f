// Makes a tree that is deeper than the longest path, by moving the tree into a new directory again
// and again, and then lists, copies and removes the tree.
// expect: answer removed or cpu_limit_exceeded or memory_limit_exceeded
// flags: nodejs_compat
// limits: cpu_ms=3000 memory_mib=64
import fs from 'node:fs';
export default {
  fetch() {
    fs.mkdirSync('/tmp/tree');
    for (let i = 0; i < 20_000; i++) {
      fs.mkdirSync('/tmp/next');
      fs.renameSync('/tmp/tree', '/tmp/next/d');
      fs.renameSync('/tmp/next', '/tmp/tree');
    }
    fs.readdirSync('/tmp/tree', { recursive: true, withFileTypes: true });
    try {
      fs.cpSync('/tmp/tree', '/tmp/copy', { recursive: true });
    } catch (error) {
      if (error.code !== 'ENAMETOOLONG') throw error;
    }
    fs.rmSync('/tmp/tree', { recursive: true });
    return new Response('removed');
  },
};
