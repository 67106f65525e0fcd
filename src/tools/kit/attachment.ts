import { invalidParams, OutcomeUnknown } from './executor.ts'

export interface Attached {
  readonly name: string
  readonly file: File
}

/** Null if the call attaches no file. Throws ToolError `invalid_params` for a bad name or content. */
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

/** The file comes first, so a marked comment shows that the whole call was carried out. */
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
  /** As the service writes it. */
  readonly date: string
}

/** A new file with this name may be from the call, which can stop before it makes the comment. */
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
