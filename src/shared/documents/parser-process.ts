import type { Table } from './table.ts'
import type { DocumentKind, Reply } from './document.ts'

/*
 * Reads one file from standard input. Writes a `Reply` as one line of JSON, the text, and the rows. The file may be an
 * attack, so sandbox.ts starts this process without rights, and kills it at the end.
 */

// The warnings of libraries would get into the output.
for (const name of ['log', 'info', 'warn', 'debug'] as const) console[name] = () => {}

interface Read {
  readonly kind: DocumentKind
  readonly text: string
  readonly table?: Table
}

async function read(bytes: Buffer, kind: string): Promise<Read> {
  if (kind === 'pdf') return { kind, text: await (await import('./pdf.ts')).textOfPdf(new Uint8Array(bytes)) }
  if (kind === 'csv') {
    const text = bytes.toString('utf8')
    return { kind, text, table: await (await import('./table.ts')).tableOfCsv(text) }
  }
  const office = await import('./office.ts')
  const { kind: found, parts } = office.unpackOffice(bytes)
  return found === 'docx'
    ? { kind: found, text: await office.textOfDocx(parts) }
    : { kind: found, ...(await office.readXlsx(parts)) }
}

async function reply(bytes: Buffer, kind: string): Promise<readonly [Reply, ...Buffer[]]> {
  const { DocumentRefused, maxDocumentSize, soundText } = await import('./document.ts')
  try {
    const found = await read(bytes, kind)
    const { table } = found
    if (table !== undefined && 'problem' in table && table.isBroken) throw new DocumentRefused(table.problem)
    const text = Buffer.from(soundText(found.text))
    if (text.length > maxDocumentSize) throw new DocumentRefused('the file holds too much text: split it')
    if (text.length === 0) throw new DocumentRefused('the file holds no text')
    const rows = table !== undefined && 'rows' in table ? Buffer.from(JSON.stringify(table.rows)) : null
    const head = {
      ok: true,
      kind: found.kind,
      textBytes: text.length,
      rowsBytes: rows?.length ?? null,
    } as const
    return rows === null ? [head, text] : [head, text, rows]
  } catch (error) {
    // Other messages can quote the file.
    const message = error instanceof DocumentRefused ? error.message : 'the file is damaged: save it anew'
    return [{ ok: false, message }]
  }
}

const pieces: Buffer[] = []
for await (const piece of process.stdin) pieces.push(piece as Buffer)
const [head, ...parts] = await reply(Buffer.concat(pieces), process.argv[2] ?? '')
process.stdout.write(`${JSON.stringify(head)}\n`)
for (const part of parts) process.stdout.write(part)
