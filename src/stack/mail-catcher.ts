import { mkdir, open, rename } from 'node:fs/promises'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import { SMTPServer, type SMTPServerOptions, type SMTPServerSession } from 'smtp-server'

/** A message that has arrived completely, but that the server has not answered yet. */
export interface ReceivedMail {
  readonly from: string
  readonly recipients: readonly string[]
  readonly raw: Buffer
  /** The connection over which the message came. */
  readonly socket: Socket | undefined
}

export interface LocalMailServer {
  readonly url: string
  readonly port: number
  /** Stops accepting mail and ends every connection. */
  close(): Promise<void>
}

/** The size limit of a message, in bytes. */
const maxMessageSize = 50 * 1024 * 1024

/**
 * Starts a mail server on the loopback address, without TLS and login. The server calls `receive` with each whole
 * message. When `receive` resolves, the sender gets 250. When `receive` rejects, the sender gets the `responseCode` of
 * the error. If the error has none, the sender gets 450.
 */
export async function listenForMail(
  receive: (mail: ReceivedMail) => Promise<void>,
  options: { port?: number } & Pick<SMTPServerOptions, 'onConnect' | 'onMailFrom' | 'onRcptTo'> = {},
): Promise<LocalMailServer> {
  const { port = 0, ...handlers } = options
  const sockets = new Map<number, Socket>()
  const server = new SMTPServer({
    ...handlers,
    disabledCommands: ['AUTH', 'STARTTLS'],
    disableReverseLookup: true,
    logger: false,
    size: maxMessageSize,
    rejectOversized: true,
    onData(stream, session, callback) {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      // If the connection is lost before the final dot, the stream emits `error` and never `end`.
      stream.on('error', () => {})
      stream.on('end', () => {
        if (stream.sizeExceeded) return callback()
        const mail = {
          ...envelopeOf(session),
          raw: Buffer.concat(chunks),
          socket: sockets.get(session.remotePort),
        }
        void answer(receive(mail), callback)
      })
    },
  })
  server.server.on('connection', (socket: Socket) => {
    const { remotePort = 0 } = socket
    sockets.set(remotePort, socket)
    socket.on('close', () => sockets.delete(remotePort))
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
  server.removeAllListeners('error')
  // Errors of single connections are ignored.
  server.on('error', () => {})
  const bound = (server.server.address() as AddressInfo).port
  return {
    port: bound,
    url: `smtp://127.0.0.1:${bound}`,
    close: () =>
      new Promise((resolve) => {
        server.close(resolve)
        for (const socket of sockets.values()) socket.destroy()
      }),
  }
}

async function answer(received: Promise<void>, reply: (error?: Error) => void): Promise<void> {
  try {
    await received
  } catch (error) {
    return reply(error instanceof Error ? error : new Error('not kept'))
  }
  reply()
}

function envelopeOf(session: SMTPServerSession): Pick<ReceivedMail, 'from' | 'recipients'> {
  const { mailFrom, rcptTo } = session.envelope
  return { from: mailFrom ? mailFrom.address : '', recipients: rcptTo.map((recipient) => recipient.address) }
}

/**
 * Stores the mail of a stack without `SMTP_URL` (`npm start` on a laptop). Each message becomes the file
 * `<time>-<n>.eml` in `dir`. Only the owner of the file can read it. The file begins with `X-Envelope-*` headers,
 * because only the envelope contains bcc recipients. The file is on disk before the sender gets 250.
 */
export async function startMailCatcher(options: { dir: string; port?: number }): Promise<LocalMailServer> {
  const { dir, ...listen } = options
  await mkdir(dir, { recursive: true, mode: 0o700 })
  let count = 0
  return listenForMail(async (mail) => {
    const name = `${new Date().toISOString().replaceAll(/[:.]/g, '-')}-${++count}`
    const envelope = `X-Envelope-From: ${mail.from}\r\nX-Envelope-To: ${mail.recipients.join(', ')}\r\n`
    await writeDurably(dir, `${name}.eml`, Buffer.concat([Buffer.from(envelope), mail.raw]))
  }, listen)
}

/**
 * Writes a file so that, after a power cut, the file is complete or does not exist. To ensure this, the function saves
 * the content to disk, then renames the file, and then saves the folder.
 */
async function writeDurably(dir: string, name: string, bytes: Buffer): Promise<void> {
  const temporary = join(dir, `.${name}.tmp`)
  const file = await open(temporary, 'wx', 0o600)
  try {
    await file.writeFile(bytes)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(temporary, join(dir, name))
  const folder = await open(dir, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
