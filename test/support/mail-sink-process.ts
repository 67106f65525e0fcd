import { fork } from 'node:child_process'
import { open } from 'node:fs/promises'
import { createServer, connect, type Socket } from 'node:net'
import { Transform } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { jsonLines } from './json-lines.ts'
import { startSmtpSink, type SinkBehaviour } from './smtp-sink.ts'

/*
 * Runs the SMTP sink as a separate process, for tests that kill everything else. Before the sink answers a mail with
 * 250, it writes the mail to its log on disk. A relay in front of the sink watches every connection. It records whether
 * the final dot was sent. The relay uses no SMTP library, so it also sees bytes that the sink never handled. The sink
 * ends with the process that started it.
 */

export interface LoggedDelivery {
  readonly kind: 'delivery'
  readonly message_id: string
  readonly subject: string
  readonly raw: string
}
/** The relay writes this entry when the connection closes. */
export interface LoggedConnection {
  readonly kind: 'connection'
  /** The subject of the message that the sender began to send. Is empty if the sender sent no subject. */
  readonly subject: string
  readonly dot: boolean
}

export interface MailSinkProcess {
  readonly url: string
  readonly pid: number
  deliveries(): LoggedDelivery[]
  connections(): LoggedConnection[]
  /** Number of deliveries with this subject. */
  count(subject: string): number
  /**
   * Changes the behaviour of the sink, and resolves when the new behaviour applies. `release` answers all held mails
   * and all paused recipients.
   */
  behave(behaviour: SinkBehaviour | { kind: 'release' }): Promise<void>
  stop(): Promise<void>
}

const self = fileURLToPath(import.meta.url)

/**
 * Starts the sink. The sink appends to the file `log`, so lines of an earlier sink stay. Every answer comes `latency`
 * milliseconds late, so that a test can interrupt a mail.
 */
export async function startMailSinkProcess(log: string, latency = 0): Promise<MailSinkProcess> {
  const child = fork(self, [log, String(latency)], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const answer = (): Promise<number> =>
    new Promise((resolve, reject) => {
      const gone = (): void => reject(new Error('the mail sink ended'))
      child.once('exit', gone)
      child.once('message', (message) => {
        child.off('exit', gone)
        resolve(message as number)
      })
    })
  const port = await answer()
  const entries = () => jsonLines<LoggedDelivery | LoggedConnection>(log)
  const deliveries = () => entries().filter((entry) => entry.kind === 'delivery')
  return {
    url: `smtp://127.0.0.1:${port}`,
    pid: child.pid as number,
    deliveries,
    connections: () => entries().filter((entry) => entry.kind === 'connection'),
    count: (subject) => deliveries().filter((mail) => mail.subject === subject).length,
    async behave(behaviour) {
      const done = answer()
      child.send(behaviour)
      await done
    },
    async stop() {
      child.kill()
      await exited
    },
  }
}

async function main(path: string, latency: number): Promise<void> {
  const log = await open(path, 'a', 0o600)
  const write = (entry: object) => log.appendFile(`${JSON.stringify(entry)}\n`)
  const sink = await startSmtpSink({
    onDelivery: async ({ message_id, subject, raw }) => {
      await write({ kind: 'delivery', message_id, subject, raw })
      await log.sync()
    },
  })
  const server = createServer((client) => {
    const late = new Transform({
      transform: (bytes, _encoding, pass) => void setTimeout(() => pass(null, bytes), latency),
    })
    relay(client, sink.port, late, (entry) => void write({ kind: 'connection', ...entry }))
  })
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as { port: number }).port))
  process.on('message', (message: SinkBehaviour | { kind: 'release' }) => {
    if (message.kind === 'release') sink.release()
    else sink.behaviour = message
    process.send?.(0)
  })
  process.once('disconnect', () => process.exit())
  process.once('SIGTERM', () => process.exit())
}

/** Passes bytes in both directions. When the connection has closed, reports whether the final dot was sent. */
function relay(
  client: Socket,
  port: number,
  late: Transform,
  closed: (entry: Omit<LoggedConnection, 'kind'>) => void,
): void {
  const server = connect(port, '127.0.0.1')
  let seen = ''
  client.on('data', (bytes) => (seen += bytes.toString('latin1')))
  client.pipe(server).pipe(late).pipe(client)
  const end = () => {
    client.destroy()
    server.destroy()
  }
  for (const socket of [client, server]) socket.on('error', end).on('close', end)
  client.once('close', () =>
    closed({ subject: /^subject: *(.*?)\r?$/im.exec(seen)?.[1] ?? '', dot: seen.includes('\r\n.\r\n') }),
  )
}

if (import.meta.main) await main(process.argv[2] as string, Number(process.argv[3]))
