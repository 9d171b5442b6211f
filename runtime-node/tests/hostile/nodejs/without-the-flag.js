// Checks that modules of Node.js do not exist without the flag, not even for import().
// expect: answer TypeError true undefined undefined undefined
export default {
  async fetch() {
    const error = await import('node:buffer').catch((error) => error);
    const { Buffer, process, setImmediate } = globalThis;
    return new Response(`${error.name} ${error.message.includes('nodejs_compat')} ${Buffer} ${process} ${setImmediate}`);
  },
};
