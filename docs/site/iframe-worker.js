/* A search that works from a file. Browsers start no Worker for a page that was opened from the
   disk; there this class takes its place and runs the script in a hidden frame instead. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.addEventListener("message", (event) => this.onmessage && this.onmessage(event));
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.frame = frame;
      const inside = frame.contentWindow;
      inside.document.open();
      inside.document.write("<!doctype html><html><body></body></html>");
      inside.document.close();
      const load = (source) =>
        new Promise((resolve, reject) => {
          const script = inside.document.createElement("script");
          script.src = source;
          script.onload = () => resolve();
          script.onerror = () => reject(new Error(`cannot load ${source}`));
          inside.document.body.appendChild(script);
        });
      // What a worker's script expects of its surroundings. It awaits importScripts, so that
      // loading one after the other will do.
      inside.postMessage = (data) =>
        this.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) }));
      inside.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve());
      this.ready = load(new URL(url, document.baseURI).href);
      this.ready.catch((error) =>
        this.dispatchEvent(new ErrorEvent("error", { message: error.message })),
      );
    }

    postMessage(data) {
      const inside = this.frame.contentWindow;
      this.ready.then(() =>
        inside.dispatchEvent(new inside.MessageEvent("message", { data: structuredClone(data) })),
      );
    }

    terminate() {
      this.frame.remove();
    }
  };
}
