// Keeps the files of earlier requests, and looks for them in later ones.
// expect: answer 0
// flags: nodejs_compat
// requests: 5
import fs from 'node:fs';
const open = [];
export default {
  fetch() {
    const names = fs.readdirSync('/tmp');
    for (const fd of open) {
      try {
        fs.readSync(fd, new Uint8Array(1));
        names.push(fd);
      } catch (error) {
        if (error.code !== 'EBADF') throw error;
      }
    }
    fs.writeFileSync('/tmp/kept', 'secret');
    open.push(fs.openSync('/tmp/kept', 'a'));
    return new Response(String(names.length));
  },
};
