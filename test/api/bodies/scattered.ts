import { connect } from 'node:net'

export interface ScatteredAnswer {
  /** The status of the first answer; null if the connection closed without one. */
  readonly status: number | null
  /** Whether the server closed the connection before it had read everything. */
  readonly isCut: boolean
}

/**
 * Sends a request whose body comes in chunks of one byte. `before` and `after` are the parts of the body around the
 * `count` bytes, in one chunk each. Resolves when the answer has come and the connection is closed, or when everything
 * is sent and answered.
 */
export function sendScattered(
  url: string,
  head: { readonly path: string; readonly headers: Readonly<Record<string, string>> },
  { before = '', count, after = '' }: { before?: string; count: number; after?: string },
): Promise<ScatteredAnswer> {
  const { hostname, port, host } = new URL(url)
  const chunk = (text: string): string =>
    text === '' ? '' : `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
  const lines = Object.entries({ host, 'transfer-encoding': 'chunked', ...head.headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  )
  const bytes = Buffer.concat([
    Buffer.from(`POST ${head.path} HTTP/1.1\r\n${lines.join('')}\r\n${chunk(before)}`),
    Buffer.alloc(count * 6, '1\r\n \r\n'),
    Buffer.from(`${chunk(after)}0\r\n\r\n`),
  ])
  return new Promise((resolve) => {
    let answer = ''
    let isSent = false
    const socket = connect(Number(port), hostname)
    const end = (): void => {
      socket.destroy()
      const status = /^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1]
      resolve({ status: status === undefined ? null : Number(status), isCut: !isSent })
    }
    socket.on('data', (piece) => {
      answer += piece.toString('latin1')
      if (isSent) end()
    })
    socket.on('error', end)
    socket.on('close', end)
    socket.write(bytes, (error) => {
      isSent = error === undefined || error === null
      if (isSent && answer !== '') end()
    })
  })
}
