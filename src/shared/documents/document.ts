import { z } from 'zod'

const documentKinds = ['pdf', 'docx', 'xlsx', 'csv', 'text'] as const
export type DocumentKind = (typeof documentKinds)[number]

export const mediaTypeOf: Readonly<Record<DocumentKind, string>> = {
  pdf: 'application/pdf',
  docx: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
  csv: 'text/csv',
  text: 'text/plain',
}

/** Bytes of an uploaded file, and of the text (in UTF-8) that is read from it. */
export const maxDocumentSize = 25 * 1024 * 1024

/** The message says why and what to do, and shows no content of the file. */
export class DocumentRefused extends Error {
  override readonly name = 'DocumentRefused'
}

/** `text` and `rows` are UTF-8. */
export interface ParsedDocument {
  readonly kind: DocumentKind
  readonly text: Buffer
  /** A JSON list of objects; null if the file is no table, or a too large one. */
  readonly rows: Buffer | null
}

/** So that the text can be stored and sent as JSON. */
export const soundText = (text: string): string => text.replaceAll('\0', ' ').toWellFormed()

const count = z.int().min(0)

/** The first line of the parser process's output, as JSON. */
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
