import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'

/** The moments at which the proxy cuts the connection around the next COMMIT. */
export type Cut =
  /** The COMMIT never reaches the server. */
  | 'before'
  /** The server commits and answers, but its answer is lost. */
  | 'after'
  /** The COMMIT reaches the server, but the proxy does not wait for the result. */
  | 'meanwhile'

/** A proxy between a pool and PostgreSQL that can cut the connection during a commit. */
export class CommitProxy {
  /** The cuts to make, in order. */
  readonly cuts: Cut[] = []
  /** Whether every connection is refused after the first cut. */
  staysDown = false
  readonly #upstream: { readonly host: string; readonly port: number }
  readonly #url: URL
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #down = false

  constructor(url: string) {
    this.#url = new URL(url)
    this.#upstream = { host: this.#url.hostname, port: Number(this.#url.port) }
    this.#server = createServer((client) => this.#pair(client))
  }

  /** Starts the proxy. Returns the URL of the same database through the proxy. */
  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    const url = new URL(this.#url)
    url.hostname = '127.0.0.1'
    url.port = String((this.#server.address() as AddressInfo).port)
    return url.href
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #pair(client: Socket): void {
    if (this.#down) {
      client.destroy()
      return
    }
    const server = connect(this.#upstream)
    const both = [client, server]
    const cut = (): void => {
      this.#down = this.staysDown
      for (const socket of both) socket.destroy()
    }
    for (const socket of both) {
      this.#sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        this.#sockets.delete(socket)
        for (const each of both) each.destroy()
      })
    }
    let swallowed: Buffer | null = null
    client.on('data', (data) => {
      const kind = endsWithCommit(data) ? this.cuts.shift() : undefined
      if (kind === 'before') {
        server.write(data.subarray(0, -commit.length), cut)
        return
      }
      server.write(data, () => {
        if (kind === 'meanwhile') server.end(cut)
      })
      if (kind === 'after') swallowed = Buffer.alloc(0)
    })
    server.on('data', (data) => {
      if (swallowed === null) {
        client.write(data)
        return
      }
      swallowed = Buffer.concat([swallowed, data])
      if (swallowed.includes('COMMIT\0')) cut()
    })
  }
}

/** A simple query message: `Q`, length, text, NUL. */
const commit = Buffer.from('Q\0\0\0\u000bcommit\0', 'latin1')

/** Whether the data ends with a COMMIT. The client sends COMMIT after the writes, and nothing after it. */
function endsWithCommit(data: Buffer): boolean {
  return data.subarray(-commit.length).equals(commit)
}
