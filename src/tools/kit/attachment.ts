import { invalidParams } from './executor.ts'

/** A text file that a call attaches to a comment. */
export interface Attached {
  readonly name: string
  readonly content: string
  readonly file: File
}

/**
 * Returns the file that a call attaches to its comment. Returns null if the call attaches no file. Throws ToolError
 * `invalid_params` if the name or the content is missing, or if the name is not valid.
 */
export function attachedOf(params: {
  readonly attachment_name?: string | undefined
  readonly attachment_content?: string | undefined
}): Attached | null {
  const { attachment_name: name, attachment_content: content } = params
  if (name === undefined && content === undefined) return null
  if (name === undefined || content === undefined)
    throw invalidParams('give `attachment_name` and `attachment_content` together, or none of them')
  if (/[/\\]|\p{Cc}/u.test(name) || /^\.*$/.test(name.trim()) || name !== name.trim())
    throw invalidParams(
      '`attachment_name` must be the name of a file, without `/`, `\\` and spaces around it',
    )
  return { name, content, file: new File([content], name, { type: 'text/plain' }) }
}
