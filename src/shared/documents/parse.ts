import { isUtf8 } from 'node:buffer'
import { DocumentRefused, reply, type ParsedDocument, type Reply } from './document.ts'
import { runInSandbox, SandboxDied, usualLimits, type SandboxOptions } from './sandbox.ts'

/** By content; text is CSV if the name or media type says so. Throws DocumentRefused, or the signal's reason. */
export async function parseDocument(
  bytes: Buffer,
  {
    name,
    mediaType,
    limits: given,
    ...options
  }: { readonly name: string; readonly mediaType: string | null } & SandboxOptions,
): Promise<ParsedDocument> {
  const kind = kindOf(bytes, name, mediaType)
  if (kind === 'text') return { kind, text: withoutMark(bytes), rows: null }
  const limits = { ...usualLimits, ...(kind === 'pdf' ? { processorSeconds: mostPdfSeconds } : {}), ...given }
  try {
    const input = kind === 'csv' ? withoutMark(bytes) : bytes
    return partsOf(await runInSandbox(program, [kind], input, { ...options, limits }))
  } catch (error) {
    if (!(error instanceof SandboxDied)) throw error
    if (error.isOutOfTime)
      throw new DocumentRefused(
        `the file takes more than ${limits.processorSeconds} seconds of processor time to read: save it anew, or split it into several files`,
        { cause: error },
      )
    throw new DocumentRefused(
      'the file takes too much time or memory to read: save it anew, or split it into several files',
      { cause: error },
    )
  }
}

/** A PDF of few bytes can draw the same content without end. */
const mostPdfSeconds = 5

const program = new URL(`./parser-process${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)

type Way = 'pdf' | 'office' | 'csv' | 'text'

/** Throws DocumentRefused for a type that the service cannot read. */
function kindOf(bytes: Buffer, name: string, mediaType: string | null): Way {
  if (bytes.length === 0) throw new DocumentRefused('the file is empty')
  const kind = binaryKind(bytes, name)
  if (kind !== null) return kind
  if (!isText(bytes))
    throw new DocumentRefused(
      'the file is no PDF, DOCX, XLSX, CSV or text: save CSV and text as UTF-8, and other files as PDF',
    )
  const ending = /\.(pdf|docx|xlsx)$/i.exec(name)?.[1]
  if (ending !== undefined)
    throw new DocumentRefused(`the name ends with \`.${ending}\`, but the file is text: send the real file`)
  return /\.csv$/i.test(name) || mediaType === 'text/csv' ? 'csv' : 'text'
}

function binaryKind(bytes: Buffer, name: string): 'pdf' | 'office' | null {
  if (isPdf(bytes, name)) return 'pdf'
  if (bytes.subarray(0, 4).equals(Buffer.from('PK\u0003\u0004'))) return 'office'
  if (bytes.subarray(0, 4).equals(Buffer.from([0xd0, 0xcf, 0x11, 0xe0])))
    throw new DocumentRefused(
      'the file is an old Office file, or has a password: save it as DOCX or XLSX without a password',
    )
  return null
}

/** `%PDF-` in the first 1,024 bytes; in a text of another name, which may just mention it, at the start. */
function isPdf(bytes: Buffer, name: string): boolean {
  const marker = bytes.subarray(0, 1024).indexOf('%PDF-')
  if (marker < 0) return false
  const isFirst = bytes.toString('utf8', 0, marker).trim() === ''
  return isFirst || /\.pdf$/i.test(name) || !isText(bytes)
}

/** Text files never contain NUL. */
const isText = (bytes: Buffer): boolean => !bytes.includes(0) && isUtf8(bytes)

const withoutMark = (bytes: Buffer): Buffer =>
  bytes.subarray(0, 3).equals(Buffer.from([0xef, 0xbb, 0xbf])) ? bytes.subarray(3) : bytes

/** A file may have taken control of the parser's process, so its output may be an attack too. */
function partsOf(output: Buffer): ParsedDocument {
  const end = output.indexOf('\n')
  if (end < 0) throw new SandboxDied('the output is cut')
  const head = headOf(output.toString('utf8', 0, Math.min(end, 1_000)))
  if (!head.ok) throw new DocumentRefused(head.message)
  const textEnd = end + 1 + head.textBytes
  const rowsEnd = textEnd + (head.rowsBytes ?? 0)
  if (rowsEnd !== output.length) throw new SandboxDied('the output is cut')
  const [text, rows] = [output.subarray(end + 1, textEnd), output.subarray(textEnd, rowsEnd)]
  if (!isUtf8(text) || !isUtf8(rows)) throw new SandboxDied('the output is no UTF-8')
  return { kind: head.kind, text, rows: head.rowsBytes === null ? null : rows }
}

function headOf(line: string): Reply {
  try {
    return reply.parse(JSON.parse(line))
  } catch (cause) {
    throw new SandboxDied('the output is wrong', { cause })
  }
}
