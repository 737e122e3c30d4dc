// Browsers start no worker from a page that was opened as a file. There, a hidden frame runs the
// script of the search instead. (The name tells Zensical that it need not load such a file itself.)
if (location.protocol === "file:")
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = data => this.later(copy => this.onmessage?.({ data: copy }), data)
      this.loaded = new Promise((loaded, failed) => {
        const script = inside.document.createElement("script")
        script.onload = loaded
        script.onerror = failed
        script.src = url
        inside.document.head.append(script)
      })
      this.loaded.catch(error => this.onerror?.(error))
    }
    postMessage(data) {
      const deliver = copy => this.frame.contentWindow?.onmessage({ data: copy })
      this.loaded.then(() => this.later(deliver, data), () => {})
    }
    // As between a page and a worker, the receiver gets a copy, and the sender goes on first.
    later(receive, data) {
      const copy = structuredClone(data)
      setTimeout(() => receive(copy))
    }
    terminate() {
      this.frame.remove()
    }
  }
