import type { Json, JsonObject } from './types.ts'

/* The files of a run: an input that no definition declares, `{{input.uploaded_files}}`. */

/** The name of the input. */
export const filesInput = 'uploaded_files'

/** A file as templates see it. */
export interface UploadedFile {
  readonly id: string
  readonly name: string
  readonly media_type: string
  readonly size: number
  readonly text: string
  /** Absent for a file that has no rows, so that a `for_each` over them fails and does not go over nothing. */
  readonly rows?: Json
}

/** The value of an input; undefined if it was not given. A run without files has an empty list of them. */
export function givenInput(inputs: JsonObject, name: string): Json | undefined {
  if (Object.hasOwn(inputs, name)) return inputs[name]
  return name === filesInput ? [] : undefined
}

/** The files inside a text: each one's text below its name. */
export function textOfFiles(files: Json): string {
  if (!Array.isArray(files)) return ''
  return (files as unknown as readonly UploadedFile[])
    .map(({ name, text }) => `File: ${name}\n\n${text}`)
    .join('\n\n')
}
