import type { Json, JsonObject } from './types.ts'

/* Templates read the uploaded files of a run as `{{input.uploaded_files}}`, which no definition declares. */

export const filesInput = 'uploaded_files'

export interface UploadedFile {
  readonly id: string
  readonly name: string
  readonly media_type: string
  readonly size: number
  readonly text: string
  /** Absent for a file without rows, so that a `for_each` over them fails instead of doing nothing. */
  readonly rows?: Json
}

/** Undefined if it was not given. Without files, `uploaded_files` is an empty list. */
export function givenInput(inputs: JsonObject, name: string): Json | undefined {
  if (Object.hasOwn(inputs, name)) return inputs[name]
  return name === filesInput ? [] : undefined
}

/** Stands for all files inside a longer text. */
export function textOfFiles(files: Json): string {
  if (!Array.isArray(files)) return ''
  return (files as unknown as readonly UploadedFile[])
    .map(({ name, text }) => `File: ${name}\n\n${text}`)
    .join('\n\n')
}

/** Why a path has no value: a file that does not exist, or the rows of a file without rows. */
export function missingOfFiles(files: Json, [position, field]: readonly string[]): string | null {
  if (!Array.isArray(files) || position === undefined || !/^\d{1,9}$/.test(position)) return null
  const file = (files as unknown as readonly UploadedFile[])[Number(position)]
  if (file === undefined)
    return `the run has ${files.length === 1 ? '1 file' : `${files.length} files`}, and [0] is the first`
  if (field !== 'rows' || file.rows !== undefined) return null
  return 'the file has no rows: only CSV and XLSX files have them, up to a limit of size'
}
