// Resolves symbolic links that multiply: each stands for a path with many links.
// expect: answer ELOOP
// flags: nodejs_compat
// limits: cpu_ms=1000
import fs from 'node:fs';
export default {
  fetch() {
    fs.symlinkSync('/tmp', '/tmp/l0');
    for (let i = 1; i < 30; i++) fs.symlinkSync(`l${i - 1}/`.repeat(300), `/tmp/l${i}`);
    try {
      return new Response(fs.realpathSync('/tmp/l29'));
    } catch (error) {
      return new Response(error.code);
    }
  },
};
