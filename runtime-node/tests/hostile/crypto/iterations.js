// Requests password hashes that would exceed the CPU limit; each must be refused before it starts.
// expect: answer held
const { subtle } = crypto;
export default {
  async fetch(request, env, ctx) {
    const key = await subtle.importKey('raw', new Uint8Array(8), 'PBKDF2', false, ['deriveBits']);
    for (const iterations of [2 ** 32 - 1, 10_000_000]) {
      for (let i = 0; i < 100; i++) {
        try {
          await subtle.deriveBits({ name: 'PBKDF2', hash: 'SHA-512', salt: new Uint8Array(8), iterations }, key, 512);
          return new Response('done?');
        } catch (error) {
          if (error.name !== 'OperationError') throw error;
        }
      }
    }
    return new Response('held');
  },
};
