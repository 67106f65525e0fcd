import type { FileHandle } from 'node:fs/promises'
import { extname } from 'node:path'
import { tableOfCsv } from '../../shared/documents/table.ts'
import { ToolError, type Bodies, type ToolBody } from '../kit/executor.ts'
import { openBelow, unreadable } from './sandbox.ts'
import type { tools } from './tools.ts'

/** The maximum size of a file in bytes. */
export const maxFileSize = 10 * 1024 * 1024

/** The media types of the known file extensions. All other text files are `text/plain`. */
const mediaTypes: Readonly<Record<string, string>> = {
  '.csv': 'text/csv',
  '.htm': 'text/html',
  '.html': 'text/html',
  '.json': 'application/json',
  '.markdown': 'text/markdown',
  '.md': 'text/markdown',
  '.tsv': 'text/tab-separated-values',
  '.xml': 'application/xml',
  '.yaml': 'application/yaml',
  '.yml': 'application/yaml',
}

/**
 * Returns `{path, text, media_type, size}` of a UTF-8 file below `fileRoot`. `size` is in bytes. A byte order mark at
 * the start is not part of `text`. A CSV or TSV file also has `rows`. If no table can be read from the file, or if the
 * table is too large, the output has `rows_problem` in place of `rows`, and still has `text`.
 * @throws ToolError `file_not_found`, `file_outside_root`, `file_not_readable`, `file_too_large`, `file_not_text`
 */
const readFile: ToolBody<'file_read'> = async (call, context) => {
  const { path } = call.params
  const file = await openBelow(context.tools.fileRoot, path)
  try {
    const bytes = await readAll(file, context.signal)
    const extension = extname(path).toLowerCase()
    const text = decode(bytes)
    const media_type = Object.hasOwn(mediaTypes, extension) ? mediaTypes[extension]! : 'text/plain'
    const rows = tables.has(extension) ? await rowsOf(text, context.signal) : {}
    return { output: { path, text, media_type, size: bytes.length, ...rows } }
  } finally {
    await file.close()
  }
}

const tables: ReadonlySet<string> = new Set(['.csv', '.tsv'])

type Rows = Pick<Awaited<ReturnType<typeof readFile>>['output'], 'rows' | 'rows_problem'>

async function rowsOf(text: string, signal: AbortSignal): Promise<Rows> {
  const table = await tableOfCsv(text, signal)
  if (!('rows' in table)) return { rows_problem: table.problem }
  // The type cast is safe, because all cells of the table are text.
  return { rows: table.rows as NonNullable<Rows['rows']> }
}

/**
 * Reads to the end of the file and counts the bytes. The size from fstat is not enough, because a file may grow, and
 * some kinds of files report no size.
 */
async function readAll(file: FileHandle, signal: AbortSignal): Promise<Buffer> {
  if ((await file.stat()).size > maxFileSize) throw tooLarge()
  const chunks: Buffer[] = []
  let total = 0
  for (;;) {
    signal.throwIfAborted()
    const buffer = Buffer.allocUnsafe(64 * 1024)
    const { bytesRead } = await file.read(buffer, 0, buffer.length, null).catch((error: unknown) => {
      throw unreadable(error)
    })
    if (bytesRead === 0) return Buffer.concat(chunks, total)
    total += bytesRead
    if (total > maxFileSize) throw tooLarge()
    chunks.push(buffer.subarray(0, bytesRead))
  }
}

function decode(bytes: Buffer): string {
  // Valid UTF-8 can contain NUL, but text does not. This detects PDF, Office and image files that are valid UTF-8.
  if (bytes.includes(0)) throw notText()
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw notText()
  }
}

const tooLarge = () =>
  new ToolError('file_too_large', `the file is larger than ${maxFileSize} bytes; split it`)
const notText = () =>
  new ToolError('file_not_text', 'the file is not UTF-8 text; save it as text, Markdown or CSV in UTF-8')

export const run = { file_read: { body: readFile } } satisfies Bodies<typeof tools>
