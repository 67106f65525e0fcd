import { createSocket } from 'node:dgram'
import { Resolver } from 'node:dns/promises'

export interface NameServer {
  /** TXT records by name. */
  readonly records: Map<string, string[]>
  /** Asks this server. */
  readonly resolver: Resolver
  close(): Promise<void>
}

/** A name server for TXT records (RFC 1035). */
export async function startNameServer(): Promise<NameServer> {
  const socket = createSocket('udp4')
  const records = new Map<string, string[]>()
  socket.on('message', (question, { address, port }) => {
    const texts = records.get(nameIn(question))
    const answers = (texts ?? []).map((text) => record(Buffer.from(text)))
    const header = Buffer.from(question.subarray(0, 12))
    // An answer; without the name: NXDOMAIN.
    header.writeUInt16BE(texts === undefined ? 0x8183 : 0x8180, 2)
    header.writeUInt16BE(answers.length, 6)
    header.writeUInt32BE(0, 8)
    const asked = question.subarray(12, endOfName(question) + 4)
    socket.send(Buffer.concat([header, asked, ...answers]), port, address)
  })
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve))
  const resolver = new Resolver({ timeout: 2_000, tries: 2 })
  resolver.setServers([`127.0.0.1:${socket.address().port}`])
  return { records, resolver, close: () => new Promise((resolve) => socket.close(() => resolve())) }
}

/** The texts that the name points to, of class IN. */
function record(text: Buffer): Buffer {
  const head = Buffer.from([0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 0, 0, 0, text.length])
  head.writeUInt16BE(text.length + 1, 10)
  return Buffer.concat([head, text])
}

function nameIn(question: Buffer): string {
  const labels: string[] = []
  for (let at = 12; (question[at] ?? 0) > 0; at += (question[at] ?? 0) + 1)
    labels.push(question.toString('latin1', at + 1, at + 1 + (question[at] ?? 0)))
  return labels.join('.').toLowerCase()
}

function endOfName(question: Buffer): number {
  let at = 12
  while ((question[at] ?? 0) > 0) at += (question[at] ?? 0) + 1
  return at + 1
}
