import { invalidParams, OutcomeUnknown } from './executor.ts'

/** A text file that a call attaches to a comment. */
export interface Attached {
  readonly name: string
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
  return { name, file: new File([content], name, { type: 'text/plain' }) }
}

/**
 * Attaches the file of a call, and then makes its comment. So a marked comment shows that the whole call was carried
 * out. `title` is the name of the service.
 */
export async function withFile<Made>(
  title: string,
  attached: Attached | null,
  attach: (file: Attached) => Promise<unknown>,
  comment: () => Promise<Made>,
): Promise<Made> {
  if (attached === null) return comment()
  await attach(attached)
  return comment().catch(() => {
    throw new OutcomeUnknown(`the file was attached, and ${title} did not confirm the comment`)
  })
}

interface Listed {
  readonly name: string
  /** When the file was made, as the service writes it. */
  readonly date: string
}

/**
 * Returns what a missing mark proves of a call that attaches a file. A new file with the same name may still be from the
 * call: the call attaches the file first, and may have stopped before it made the comment.
 */
export async function withoutComment(
  attached: Attached | null,
  since: number,
  list: () => Promise<readonly Listed[]>,
): Promise<{ readonly kind: 'unclear' | 'absent' }> {
  if (attached === null) return { kind: 'absent' }
  const isThere = (await list()).some(
    ({ name, date }) => name === attached.name && !(Date.parse(date) < since),
  )
  return { kind: isThere ? 'unclear' : 'absent' }
}
