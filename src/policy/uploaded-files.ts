import type { Json, JsonObject } from './types.ts'

/*
 * The files that were uploaded for a run. Templates read them as the input `{{input.uploaded_files}}`, which no
 * definition declares.
 */

/** The name of this input. */
export const filesInput = 'uploaded_files'

/** A file as templates see it. */
export interface UploadedFile {
  readonly id: string
  readonly name: string
  readonly media_type: string
  readonly size: number
  readonly text: string
  /**
   * Is absent for a file without rows. So a `for_each` over `rows` fails. With an empty list, the step would do
   * nothing, and would not fail.
   */
  readonly rows?: Json
}

/** The value of an input; undefined if it was not given. For a run without files, `uploaded_files` is an empty list. */
export function givenInput(inputs: JsonObject, name: string): Json | undefined {
  if (Object.hasOwn(inputs, name)) return inputs[name]
  return name === filesInput ? [] : undefined
}

/**
 * Returns the text that stands for all files inside a longer text. Each file's name comes first, and its text follows.
 */
export function textOfFiles(files: Json): string {
  if (!Array.isArray(files)) return ''
  return (files as unknown as readonly UploadedFile[])
    .map(({ name, text }) => `File: ${name}\n\n${text}`)
    .join('\n\n')
}

/**
 * Returns why a path has no value: it leads to a file that does not exist, or to the rows of a file without rows.
 * Returns null for every other path.
 */
export function missingOfFiles(files: Json, [position, field]: readonly string[]): string | null {
  if (!Array.isArray(files) || position === undefined || !/^\d{1,9}$/.test(position)) return null
  const file = (files as unknown as readonly UploadedFile[])[Number(position)]
  if (file === undefined)
    return `the run has ${files.length === 1 ? '1 file' : `${files.length} files`}, and [0] is the first`
  if (field !== 'rows' || file.rows !== undefined) return null
  return 'the file has no rows: only CSV and XLSX files have them, up to a limit of size'
}
