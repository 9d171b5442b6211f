// node:readline and node:readline/promises: lines of a stream. There is no terminal.
//: module
(function (internal) {
  "use strict";

  const { Error, ObjectAssign, ObjectSetPrototypeOf, Promise, ReflectApply, SymbolAsyncIterator, SymbolDispose } = internal.primordials;

  internal.define("readline", () => {
    const { abortError, coded, defineHidden, needFunction } = internal.node;
    const EventEmitter = internal.use("events");
    const { StringDecoder } = internal.use("string_decoder");
    const { nextTick } = internal.use("process");

    const closed = () => coded(Error, "ERR_USE_AFTER_CLOSE", "readline was closed");

    /** @returns {void} */
    function Interface(input, output, completer, terminal) {
      if (!(this instanceof Interface)) return new Interface(input, output, completer, terminal);
      const options = input?.input !== undefined ? input : { input, output };
      ReflectApply(EventEmitter, this, []);
      this.input = options.input;
      this.output = options.output;
      this.terminal = false;
      this.line = "";
      this.cursor = 0;
      this.closed = false;
      this.paused = false;
      this.history = [];
      let prompt = options.prompt ?? "> ";
      const decoder = new StringDecoder("utf8");
      let endedWithReturn = false;

      // Emits the lines that a text completes. Keeps the last line until it ends.
      const emitLines = (text) => {
        if (text === "") return;
        const whole = endedWithReturn && text[0] === "\n" ? text.slice(1) : text;
        endedWithReturn = text.endsWith("\r");
        const lines = (this.line + whole).split(/\r\n|[\n\r\u2028\u2029]/);
        this.line = lines.pop() ?? "";
        for (const line of lines) emitLine(this, line);
      };
      const onData = (chunk) => emitLines(typeof chunk === "string" ? chunk : decoder.write(chunk));
      const onEnd = () => {
        emitLines(decoder.end());
        if (this.line !== "") emitLine(this, this.line);
        this.line = "";
        this.close();
      };
      const onError = (error) => this.emit("error", error);
      defineHidden(this, {
        _question: null,
        _forget: () => {
          this.input?.removeListener("data", onData);
          this.input?.removeListener("end", onEnd);
          this.input?.removeListener("error", onError);
        },
        getPrompt: () => prompt,
        setPrompt: (text) => {
          prompt = `${text}`;
        },
      });
      options.input?.on("data", onData);
      options.input?.on("end", onEnd);
      options.input?.on("error", onError);
      if (options.signal) {
        const { isAborted, onAbort } = internal.abort();
        if (isAborted(options.signal)) nextTick(() => this.close());
        else this.once("close", onAbort(options.signal, () => this.close()));
      }
      options.input?.resume?.();
    }
    ObjectSetPrototypeOf(Interface.prototype, EventEmitter.prototype);
    ObjectSetPrototypeOf(Interface, EventEmitter);

    function emitLine(reader, line) {
      const question = reader._question;
      reader._question = null;
      if (question !== null) question(line);
      else reader.emit("line", line);
    }

    defineHidden(Interface.prototype, {
      close() {
        if (this.closed) return;
        this.closed = true;
        this._forget();
        this.pause();
        this.emit("close");
      },
      getCursorPos: () => ({ rows: 0, cols: 0 }),
      pause() {
        if (!this.paused) {
          this.input?.pause?.();
          this.paused = true;
          this.emit("pause");
        }
        return this;
      },
      prompt() {
        if (this.paused) this.resume();
        this.output?.write(this.getPrompt());
      },
      question(query, options, callback) {
        if (this.closed) throw closed();
        this.output?.write(query);
        this._question = needFunction(typeof options === "function" ? options : callback, "cb");
      },
      resume() {
        if (this.paused) {
          this.input?.resume?.();
          this.paused = false;
          this.emit("resume");
        }
        return this;
      },
      write(data) {
        if (this.closed) throw closed();
        if (data !== undefined && data !== null) this.input?.emit("data", data);
      },
      async *[SymbolAsyncIterator]() {
        const { on } = /** @type {any} */ (EventEmitter);
        try {
          for await (const [line] of on(this, "line", { close: ["close"] })) yield line;
        } finally {
          this.close();
        }
      },
      [SymbolDispose]() {
        this.close();
      },
    });
    // Writes a control sequence (ECMA-48) to a stream.
    const control = (stream, text, callback) => {
      if (stream === null || stream === undefined) {
        if (callback) nextTick(callback, null);
        return true;
      }
      return stream.write(text, callback);
    };
    const step = (count, forward, back) => (count === 0 ? "" : `\x1b[${Math.abs(count)}${count > 0 ? forward : back}`);

    class PromiseInterface {
      constructor(...args) {
        return ObjectSetPrototypeOf(new Interface(...args), new.target.prototype);
      }
    }
    ObjectSetPrototypeOf(PromiseInterface.prototype, Interface.prototype);
    defineHidden(PromiseInterface.prototype, {
      question(query, options = undefined) {
        return new Promise((resolve, reject) => {
          if (options?.signal) {
            const { isAborted, onAbort } = internal.abort();
            if (isAborted(options.signal)) throw abortError(options.signal);
            onAbort(options.signal, () => {
              this._question = null;
              reject(abortError(options.signal));
            });
          }
          ReflectApply(Interface.prototype.question, this, [query, resolve]);
        });
      },
    });

    const readline = {
      Interface,
      clearLine: (stream, direction, callback) => control(stream, direction < 0 ? "\x1b[1K" : direction > 0 ? "\x1b[0K" : "\x1b[2K", callback),
      clearScreenDown: (stream, callback) => control(stream, "\x1b[0J", callback),
      createInterface: (...args) => new Interface(...args),
      cursorTo: (stream, x, y, callback) =>
        control(stream, typeof y === "number" ? `\x1b[${y + 1};${x + 1}H` : `\x1b[${x + 1}G`, typeof y === "function" ? y : callback),
      emitKeypressEvents() {},
      moveCursor: (stream, x, y, callback) => control(stream, step(x, "C", "D") + step(y, "B", "A"), callback),
    };
    return ObjectAssign(readline, {
      promises: { Interface: PromiseInterface, createInterface: (...args) => new PromiseInterface(...args) },
    });
  });
})
