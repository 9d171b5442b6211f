// Requests internal addresses in many spellings.
// expect: answer refused
// limits: cpu_ms=500
export default {
  async fetch() {
    const hosts = [
      '127.0.0.1:9090', '0x7f.1', '2130706433', '017700000001', 'localhost:7100', '[::1]', '[::]', '0.0.0.0', '0',
      '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[64:ff9b::7f00:1]', '[2002:7f00:1::]', '[::127.0.0.1]', '10.96.0.1',
      '169.254.169.254', '[fd00:ec2::254]', '[::ffff:a9fe:a9fe]', '192.168.0.1', '172.17.0.1', '100.100.100.200',
      '168.63.129.16', '\uff11\uff10.0.0.1', '10\u30020\u30020\u30021', 'a.localhost', '224.0.0.1', '255.255.255.255',
    ];
    const wrong = [];
    for (const host of hosts) {
      try {
        await fetch(`http://${host}/`);
        wrong.push(host);
      } catch (error) {
        if (error.cause.stage !== 'policy') wrong.push(`${host}: ${error}`);
      }
    }
    return new Response(wrong.length === 0 ? 'refused' : wrong.join('\n'));
  },
};
