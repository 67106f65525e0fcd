import { z } from 'zod'

/* The content that the service reads from an uploaded file. */

const documentKinds = ['pdf', 'docx', 'xlsx', 'csv', 'text'] as const
export type DocumentKind = (typeof documentKinds)[number]

export const mediaTypeOf: Readonly<Record<DocumentKind, string>> = {
  pdf: 'application/pdf',
  docx: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  csv: 'text/csv',
  text: 'text/plain',
}

/**
 * Maximum bytes of an uploaded file. The text that is read from one file (in UTF-8) may also have at most this many
 * bytes.
 */
export const maxDocumentSize = 25 * 1024 * 1024

/** A file that cannot be read. The message says why and what to do, and shows no content of the file. */
export class DocumentRefused extends Error {
  override readonly name = 'DocumentRefused'
}

/** The result of reading a file. `text` and `rows` are UTF-8. */
export interface ParsedDocument {
  readonly kind: DocumentKind
  readonly text: Buffer
  /** A JSON list with one object for each row. Is null if the file is no table, or if the table is too large. */
  readonly rows: Buffer | null
}

/** Replaces NUL and halves of surrogate pairs, so that the text can be stored and sent as JSON. */
export const soundText = (text: string): string => text.replaceAll('\0', ' ').toWellFormed()

const count = z.int().min(0)

/** The first line of the output of the parser process, as JSON. */
export const reply = z.discriminatedUnion('ok', [
  z.strictObject({
    ok: z.literal(true),
    kind: z.enum(documentKinds),
    textBytes: count,
    rowsBytes: count.nullable(),
  }),
  z.strictObject({ ok: z.literal(false), message: z.string().max(300) }),
])
export type Reply = z.output<typeof reply>
