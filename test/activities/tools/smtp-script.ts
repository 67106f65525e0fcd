import { createServer, type AddressInfo, type Socket } from 'node:net'

export interface ScriptedServer {
  readonly url: string
  /** Everything that the client has sent. */
  received(): string
  /** Resolves once the client's input contains this text. */
  saw(text: string): Promise<void>
  close(): Promise<void>
}

/** The server's answer to a command or to `dot`. null gives no answer; a function acts on the connection. */
export type Script = Partial<Record<'greeting' | 'EHLO' | 'AUTH' | 'MAIL' | 'RCPT' | 'DATA' | 'dot', Line>>
type Line = string | null | ((socket: Socket) => void)

const usual = {
  greeting: '220 scripted',
  EHLO: '250 scripted',
  AUTH: '235 welcome',
  MAIL: '250 ok',
  RCPT: '250 ok',
  DATA: '354 go on',
  dot: '250 taken',
} as const

/** A mail server that answers exactly as scripted, even wrongly. The server checks no rules of SMTP. */
export async function startScripted(script: Script): Promise<ScriptedServer> {
  const lines: Required<Script> = { ...usual, ...script }
  const sockets = new Set<Socket>()
  let received = ''
  let waiting: { text: string; resolve: () => void }[] = []

  const server = createServer((socket) => {
    sockets.add(socket)
    let unread = ''
    let inData = false
    const say = (line: Line) => {
      if (typeof line === 'function') line(socket)
      else if (line !== null) socket.write(`${line}\r\n`)
    }
    socket.on('error', () => {})
    socket.on('data', (chunk: Buffer) => {
      const text = chunk.toString('latin1')
      received += text
      unread += text
      for (const waiter of waiting.filter((entry) => received.includes(entry.text))) waiter.resolve()
      waiting = waiting.filter((entry) => !received.includes(entry.text))
      for (let end = unread.indexOf('\r\n'); end !== -1; end = unread.indexOf('\r\n')) {
        const line = unread.slice(0, end)
        unread = unread.slice(end + 2)
        if (inData && line !== '.') continue
        const command = inData ? 'dot' : (line.split(' ')[0] as keyof Script)
        inData = command === 'DATA' && lines.DATA !== null && String(lines.DATA).startsWith('354')
        say(lines[command] ?? null)
      }
    })
    say(lines.greeting)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received: () => received,
    saw: (text) =>
      received.includes(text) ? Promise.resolve() : new Promise((resolve) => waiting.push({ text, resolve })),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}
