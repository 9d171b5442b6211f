// Connects to internal addresses in many spellings, and to metadata services.
// expect: answer refused
// limits: cpu_ms=500
import { connect } from 'cloudflare:sockets';
export default {
  async fetch() {
    const hosts = [
      '127.0.0.1', '0x7f.1', '2130706433', '017700000001', 'localhost', '::1', '::', '0.0.0.0', '0', '::ffff:127.0.0.1',
      '[::ffff:7f00:1]', '64:ff9b::7f00:1', '2002:7f00:1::', '::127.0.0.1', '10.96.0.1', '169.254.169.254',
      'fd00:ec2::254', '::ffff:a9fe:a9fe', '192.168.0.1', '172.17.0.1', '100.100.100.200', '168.63.129.16',
      '\uff11\uff10.0.0.1', '10\u30020\u30020\u30021', 'a.localhost', '224.0.0.1', '255.255.255.255',
    ];
    const wrong = [];
    for (const hostname of hosts) {
      for (const secureTransport of ['off', 'on', 'starttls']) {
        try {
          await connect({ hostname, port: 6379 }, { secureTransport }).opened;
          wrong.push(hostname);
        } catch (error) {
          // The invocation may make fewer subrequests than there are attempts.
          if (!['policy', 'limit'].includes(error.cause.stage)) wrong.push(`${hostname}: ${error}`);
        }
      }
    }
    return new Response(wrong.length === 0 ? 'refused' : wrong.join('\n'));
  },
};
