import { mkdir, open, rename } from 'node:fs/promises'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import { SMTPServer, type SMTPServerOptions, type SMTPServerSession } from 'smtp-server'

/** A message that has arrived completely and is not answered yet. */
export interface ReceivedMail {
  readonly from: string
  readonly recipients: readonly string[]
  readonly raw: Buffer
  readonly socket: Socket | undefined
}

export interface LocalMailServer {
  readonly url: string
  readonly port: number
  close(): Promise<void>
}

/**
 * A mail server on the loopback address, without TLS and login. Once `receive` resolves, the sender gets 250; if it
 * rejects, the `responseCode` of the error, or 450.
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
    size: 50 * 1024 * 1024,
    rejectOversized: true,
    onData(stream, session, callback) {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      // Without an end if the connection is lost before the final dot.
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
 * Keeps the mail of a stack without `SMTP_URL`: `<time>-<n>.eml` in `dir`, for its owner alone, on disk before the
 * sender gets 250. It begins with `X-Envelope-*` headers, because only the envelope has bcc recipients.
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

/** After a power cut, the file is complete or does not exist. */
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
