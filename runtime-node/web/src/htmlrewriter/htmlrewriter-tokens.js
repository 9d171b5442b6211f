// The tokens that the handlers of an HTMLRewriter get: Element, EndTag, Comment, Text, Doctype and
// DocumentEnd.
//
// Native code holds the state of a token (`token.rs` in tenon-html). An object of these classes
// refers to it as the current token of its rewriting (`htmlrewriter.js`), until the handler that
// got the object has ended.
//: late, after response.js streams.js
(function (internal) {
  "use strict";

  const { IteratorPrototype, ObjectDefineProperty, ObjectSetPrototypeOf, TypeError } =
    internal.primordials;
  const { DOMString, dictionary, expose, isObject, needs } = internal.webidl;
  const { body: bodies, ops } = internal;

  internal.later("htmlRewriterTokens", [], () => {
    // The places in the order of `Place::ALL` in tenon-html.
    const BEFORE = 0, AFTER = 1, PREPEND = 2, APPEND = 3, REPLACE = 4, INNER = 5;

    const WRAP = { __proto__: null };

    // Returns the number of the rewriting whose current token this is. Throws if this is not the
    // current token of its rewriting.
    let numberOf;
    let rewritingOf;
    let isToken;

    class Token {
      #rewriting;
      #kind;

      static {
        isToken = (value, kind) => isObject(value) && #kind in value && value.#kind === kind;
        rewritingOf = (token) => token.#rewriting;
        numberOf = (token) => {
          const rewriting = token.#rewriting;
          if (rewriting.token !== token) throw new TypeError("A token can be used only until its handler has ended");
          return rewriting.number;
        };
      }

      constructor(key, rewriting, kind) {
        if (key !== WRAP) throw new TypeError("Illegal constructor: only an HTMLRewriter makes tokens, for its handlers");
        this.#rewriting = rewriting;
        this.#kind = kind;
      }
    }

    // Returns the stream of content that is a ReadableStream or a Response; null for other content.
    // The content then counts as used.
    function streamOf(content) {
      if (!isObject(content)) return null;
      if (internal.isReadableStream(content)) return bodies.streamOf(bodies.move(bodies.extract(content)));
      if (!internal.isResponse(content)) return null;
      const { body } = internal.responseRecord(content);
      return bodies.streamOf(bodies.move(body ?? bodies.of("", null)));
    }

    // Inserts content at a place beside or within a token, and returns the token. The conversion of
    // the content may run a Worker's code.
    function insert(token, what, place, given, content, options) {
      numberOf(token);
      needs(given, 1, what);
      const { html } = dictionary(options, what);
      const isHtml = !!html;
      const stream = streamOf(content);
      if (stream === null) {
        const text = DOMString(content);
        ops.tokenInsert(numberOf(token), place, text, isHtml);
      } else {
        ops.tokenInsertStream(numberOf(token), place, rewritingOf(token).keep(stream), isHtml);
      }
      return token;
    }

    // A token that can be replaced.
    class Replaceable extends Token {
      get removed() {
        return ops.tokenIsRemoved(numberOf(this));
      }

      before(content, options = undefined) {
        return insert(this, "before", BEFORE, arguments.length, content, options);
      }

      after(content, options = undefined) {
        return insert(this, "after", AFTER, arguments.length, content, options);
      }

      replace(content, options = undefined) {
        return insert(this, "replace", REPLACE, arguments.length, content, options);
      }

      remove() {
        ops.tokenRemove(numberOf(this), false);
        return this;
      }
    }
    expose(Replaceable);

    // The attributes that an element had when the iterator was created.
    class Attributes {
      #element;
      #list;
      #at = 0;

      constructor(element, list) {
        this.#element = element;
        this.#list = list;
      }

      next() {
        numberOf(this.#element);
        const list = this.#list;
        const at = this.#at;
        if (at >= list.length) return { value: undefined, done: true };
        this.#at = at + 2;
        return { value: [list[at], list[at + 1]], done: false };
      }
    }
    delete /** @type {any} */ (Attributes.prototype).constructor;
    ObjectSetPrototypeOf(Attributes.prototype, IteratorPrototype);
    ObjectDefineProperty(Attributes.prototype, "next", { __proto__: null, enumerable: true });

    class Element extends Replaceable {
      get tagName() {
        return ops.tokenName(numberOf(this));
      }
      set tagName(value) {
        numberOf(this);
        const name = DOMString(value);
        ops.tokenSetName(numberOf(this), name);
      }

      get namespaceURI() {
        return ops.tokenNamespace(numberOf(this));
      }

      get attributes() {
        return new Attributes(this, ops.tokenAttributes(numberOf(this)));
      }

      getAttribute(name) {
        numberOf(this);
        needs(arguments.length, 1, "getAttribute");
        const key = DOMString(name);
        return ops.tokenAttribute(numberOf(this), key);
      }

      hasAttribute(name) {
        numberOf(this);
        needs(arguments.length, 1, "hasAttribute");
        const key = DOMString(name);
        return ops.tokenAttribute(numberOf(this), key) !== null;
      }

      setAttribute(name, value) {
        numberOf(this);
        needs(arguments.length, 2, "setAttribute");
        const key = DOMString(name);
        const text = DOMString(value);
        ops.tokenSetAttribute(numberOf(this), key, text);
        return this;
      }

      removeAttribute(name) {
        numberOf(this);
        needs(arguments.length, 1, "removeAttribute");
        const key = DOMString(name);
        ops.tokenRemoveAttribute(numberOf(this), key);
        return this;
      }

      prepend(content, options = undefined) {
        return insert(this, "prepend", PREPEND, arguments.length, content, options);
      }

      append(content, options = undefined) {
        return insert(this, "append", APPEND, arguments.length, content, options);
      }

      setInnerContent(content, options = undefined) {
        return insert(this, "setInnerContent", INNER, arguments.length, content, options);
      }

      removeAndKeepContent() {
        ops.tokenRemove(numberOf(this), true);
        return this;
      }

      // A later handler replaces an earlier one.
      onEndTag(handler) {
        numberOf(this);
        needs(arguments.length, 1, "onEndTag");
        if (typeof handler !== "function") throw new TypeError("onEndTag: the handler is not a function");
        rewritingOf(this).onEnd(ops.tokenHandleEnd(numberOf(this)), handler);
      }
    }
    expose(Element);

    class EndTag extends Token {
      get name() {
        return ops.tokenName(numberOf(this));
      }
      set name(value) {
        numberOf(this);
        const name = DOMString(value);
        ops.tokenSetName(numberOf(this), name);
      }

      before(content, options = undefined) {
        return insert(this, "before", BEFORE, arguments.length, content, options);
      }

      after(content, options = undefined) {
        return insert(this, "after", AFTER, arguments.length, content, options);
      }

      remove() {
        ops.tokenRemove(numberOf(this), false);
        return this;
      }
    }
    expose(EndTag);

    class Comment extends Replaceable {
      get text() {
        return ops.tokenText(numberOf(this));
      }
      set text(value) {
        numberOf(this);
        const text = DOMString(value);
        ops.tokenSetText(numberOf(this), text);
      }
    }
    expose(Comment);

    class Text extends Replaceable {
      get text() {
        return ops.tokenText(numberOf(this));
      }

      get lastInTextNode() {
        return ops.tokenIsLast(numberOf(this));
      }
    }
    expose(Text);

    class Doctype extends Token {
      get name() {
        return ops.tokenDoctype(numberOf(this)).name;
      }

      get publicId() {
        return ops.tokenDoctype(numberOf(this)).publicId;
      }

      get systemId() {
        return ops.tokenDoctype(numberOf(this)).systemId;
      }
    }
    expose(Doctype);

    class DocumentEnd extends Token {
      append(content, options = undefined) {
        return insert(this, "append", APPEND, arguments.length, content, options);
      }
    }
    expose(DocumentEnd);

    // Returns a function that makes tokens of a class. `console` shows what `shown` returns, as
    // long as the token can be used.
    function maker(constructor, shown) {
      const { name } = constructor;
      internal.describeBy(name, (value) => isToken(value, name), (token) => {
        const { number, token: current } = rewritingOf(token);
        return current === token ? shown(number) : [];
      });
      return (rewriting) => new constructor(WRAP, rewriting, name);
    }
    return {
      __proto__: null,
      element: maker(Element, (number) => ["tagName", ops.tokenName(number), "namespaceURI", ops.tokenNamespace(number)]),
      endTag: maker(EndTag, (number) => ["name", ops.tokenName(number)]),
      comment: maker(Comment, (number) => ["text", ops.tokenText(number)]),
      text: maker(Text, (number) => ["text", ops.tokenText(number), "lastInTextNode", ops.tokenIsLast(number)]),
      doctype: maker(Doctype, (number) => {
        const { name, publicId, systemId } = ops.tokenDoctype(number);
        return ["name", name, "publicId", publicId, "systemId", systemId];
      }),
      documentEnd: maker(DocumentEnd, () => []),
    };
  });
})
