// Checks that a long template has the same result as a short template.
// expect: answer held
// limits: cpu_ms=20000 wall_ms=30000 memory_mib=256
export default {
  async fetch(request, env, ctx) {
    const check = (is, should, what) => {
      if (is !== should) throw new Error(`${what}: ${String(is).slice(0, 200)} is not ${String(should).slice(0, 200)}`);
    };
    const unit = 'xabcy';
    // The text is so long that the template is not passed to native code.
    const times = 2 ** 11;
    const fill = '.'.repeat(60) + '$$'.repeat(60);
    const parts = ['$&', '$$', '$$&', '$1', '$2', '$3', '$01', '$02', '$10', '$11', '$0', '$00', '$9', '$x', '$<b>', '$<none>', 'a$&b$1c$2d', '$1$2$$1$&&', '$123'];
    for (const end of ['', '$', '$<b', '$<']) {
      const template = fill + '$&'.repeat(64) + parts.join('|') + end;
      for (const expression of [/a(b)(c)?/g, /a(?<b>b)(c)(z)?/g, /abc/g, /a(b)(c)()()()()()()()(y)/g, /a(?<b>b)c|(?<b>y)/g]) {
        const short = unit.replace(expression, template);
        check(unit.repeat(times).replace(expression, template), short.repeat(times), `${expression} up to ${end}`);
      }
      check(unit.repeat(times).replaceAll('b', template), unit.replaceAll('b', template).repeat(times), `all b up to ${end}`);
      const rest = unit.repeat(2 ** 16 - 1);
      check((unit + rest).replace('b', template), unit.replace('b', template) + rest, `one b up to ${end}`);
    }
    const long = unit.repeat(2 ** 16);
    const template = `$\`|$'|${'$$'.repeat(64)}`;
    check(long.replace('b', template), `xaxa|${long.slice(3)}|${'$'.repeat(64)}${long.slice(3)}`, 'around');
    check(long.replace(/abcy$/, template), long.slice(0, -4) + long.slice(0, -4) + `||${'$'.repeat(64)}`, 'at the end');
    check(long.replace(/y/y, template), long, 'not there');
    const order = [];
    const note = (name, value) => ({ toString: () => (order.push(name), value) });
    String.prototype.replace.call(note('text', long), note('pattern', 'b'), note('by', '$&'));
    check(order.join(), 'text,pattern,by', 'order');
    check('b'.replace({ [Symbol.replace]: (text, by) => `${text}${typeof by}` }, {}), 'bobject', 'own way');
    check('undefined'.replace('u'), 'undefinedndefined', 'undefined');
    check('a1'.replace(1, 2) + 'aa'.replaceAll('a', null), 'a2nullnull', 'no texts');
    for (const wrong of [() => 'a'.replace('a', Symbol()), () => ''.replace.call(null, 'a', {}), () => 'a'.replaceAll(/a/, {})]) {
      try {
        wrong();
      } catch (error) {
        check(error.name, 'TypeError', String(wrong));
        continue;
      }
      throw new Error(`${wrong} went through`);
    }
    check(['replace', 'replaceAll'].map((name) => ''[name].length + ''[name].name).join(), '2replace,2replaceAll', 'names');
    return new Response('held');
  },
};
