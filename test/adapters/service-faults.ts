import type { Socket } from 'node:net'
import { allowed, reply } from './scripted-service.ts'

/* Faults between an adapter and the service. */

export const ok = JSON.stringify(allowed)
const head = (length: number | string): string => `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n`
export const chunked = (body: string): string =>
  `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body}`

/** The service gives no answer. In open mode the call passes. */
export const unreachable: Readonly<Record<string, (socket: Socket) => void>> = {
  'closed without a byte': (socket) => socket.end(),
  'reset without a byte': (socket) => socket.resetAndDestroy(),
  'no answer': () => {},
  'no end of the headers': (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Type: '),
  'no end of the body': (socket) => socket.write(head(900) + ok),
  'a byte a second': (socket) => trickle(socket, head(ok.length) + ok),
  '500': (socket) => reply(socket, 500, { error: { code: 'internal' } }),
  '502 from a proxy': (socket) => reply(socket, 502, '<html>bad gateway</html>'),
  '503 without end': (socket) => socket.write('HTTP/1.1 503 Unavailable\r\nContent-Length: 99\r\n\r\n'),
}

/** The service gives an unusable answer. The call is blocked in both modes. */
export const odd: Readonly<Record<string, (socket: Socket) => void>> = {
  '401': (socket) => reply(socket, 401, { error: { code: 'unauthenticated', message: 'no such key' } }),
  '403': (socket) => reply(socket, 403, { error: { code: 'missing_scope' } }),
  '404': (socket) => reply(socket, 404, 'not here'),
  '413 before all was read': (socket) => reply(socket, 413, ''),
  '429': (socket) => reply(socket, 429, {}),
  '201 with an allow': (socket) => reply(socket, 201, allowed),
  '204': (socket) => socket.end('HTTP/1.1 204 No Content\r\n\r\n'),
  '101': (socket) => socket.end('HTTP/1.1 101 Switching Protocols\r\n\r\n'),
  'no HTTP': (socket) => socket.end('SSH-2.0-OpenSSH_9.6\r\n'),
  'no HTTP, and no end': (socket) => socket.write('220 mail.example.com ESMTP\r\n'),
  'a status in words': (socket) => socket.end('HTTP/1.1 OK fine\r\n\r\n'),
  'a header without a colon': (socket) => socket.end(`HTTP/1.1 200 OK\r\nnonsense\r\n\r\n${ok}`),
  'endless headers': (socket) => endless(socket, 'HTTP/1.1 200 OK\r\n', 'X-Filler: yes\r\n'),
  'an endless body': (socket) => endless(socket, 'HTTP/1.1 200 OK\r\n\r\n', ' '.repeat(1000)),
  'a long body': (socket) => reply(socket, 200, JSON.stringify({ ...allowed, padding: 'x'.repeat(2 ** 21) })),
  'a length of 20 digits': (socket) => socket.end(head('9'.repeat(20)) + ok),
  'cut in the headers': (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Le'),
  'cut in the body': (socket) => socket.end(head(ok.length + 1) + ok),
  'reset in the body': (socket) =>
    socket.write(head(ok.length + 1) + ok, () => setTimeout(() => socket.resetAndDestroy(), 100)),
  'longer than its length': (socket) => socket.end(head(ok.length) + ok + ok),
  'two lengths': (socket) =>
    socket.end(`HTTP/1.1 200 OK\r\nContent-Length: ${ok.length}\r\nContent-Length: 5\r\n\r\n${ok}`),
  'a length below zero': (socket) => socket.end(head('-1') + ok),
  'length and chunks': (socket) =>
    socket.end(`HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`),
  'a chunk of no size': (socket) => socket.end(chunked('zz\r\n{}\r\n0\r\n\r\n')),
  'a chunk cut short': (socket) => socket.end(chunked(`ff\r\n${ok}`)),
  'packed with gzip': (socket) => reply(socket, 200, '\u001f\u008b\b', ['Content-Encoding: gzip']),
  empty: (socket) => reply(socket, 200, ''),
  'a page': (socket) => reply(socket, 200, '<html>please sign in to this wifi</html>'),
  'truncated JSON': (socket) => reply(socket, 200, ok.slice(0, -1)),
  'JSON and more': (socket) => reply(socket, 200, `${ok} {}`),
  'a list': (socket) => reply(socket, 200, [allowed]),
  'the word alone': (socket) => reply(socket, 200, '"allow"'),
  null: (socket) => reply(socket, 200, 'null'),
  'no verdict': (socket) => reply(socket, 200, { decision_id: 'dec_1' }),
  'another verdict': (socket) => reply(socket, 200, { ...allowed, decision: 'permit' }),
  'a verdict in capitals': (socket) => reply(socket, 200, { ...allowed, decision: 'ALLOW' }),
  'a verdict that is true': (socket) => reply(socket, 200, { ...allowed, decision: true }),
  'two verdicts': (socket) =>
    reply(socket, 200, '{"decision": "deny", "decision_id": "dec_1", "decision": "allow"}'),
  'allow without a decision': (socket) => reply(socket, 200, { decision: 'allow' }),
  'allow of decision 7': (socket) => reply(socket, 200, { decision: 'allow', decision_id: 7 }),
  'hold without an approval': (socket) => reply(socket, 200, { decision: 'require_approval' }),
  'hold with an approval that is a path': (socket) =>
    reply(socket, 200, { decision: 'require_approval', approval_id: '../../authorize' }),
  'not UTF-8': (socket) => socket.end(Buffer.concat([Buffer.from(head(2)), Buffer.from([0xff, 0xfe])])),
}

function trickle(socket: Socket, text: string): void {
  let at = 0
  const timer = setInterval(() => socket.write(text.charAt(at++)), 1000)
  socket.once('close', () => clearInterval(timer))
}

function endless(socket: Socket, first: string, more: string): void {
  socket.write(first)
  const push = (): void => {
    while (socket.writable && socket.write(more));
    socket.once('drain', push)
  }
  push()
}
