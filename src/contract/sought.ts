/** What is known about a call that was sent, and got no answer. Only `url` is made from values. */
export interface Sought {
  /** Such as `GitHub`, or `the mail server`. */
  readonly service: string
  readonly sent_at: string | null
  /** What the call leaves there, and its text. null: nothing by which it can be found. */
  readonly where: string | null
  readonly mark: string | null
  /** Where a person looks. null: unknown, or its values are hidden from the reader. */
  readonly url: string | null
}

/** While a call is looked for by the service itself. */
export const lookingWords = ({ service, where }: Sought): string =>
  where === null ? `sent again to ${service} with its key` : `looking for it at ${service} by ${where}`

/** What a person looks for. `show` makes the mark of its text: chat and mail write it in their way. */
export const soughtWords = ({ service, where, mark }: Sought, show = (text: string) => text): string =>
  where === null || mark === null
    ? `It left no mark at ${service}: look for what it would have made.`
    : `Look at ${service} for ${where}: ${show(mark)}`

/** What a person said about a call whose outcome nobody knew. */
export interface Resolution {
  readonly item_index: number | null
  readonly attempt: number
  readonly outcome: 'retry' | 'done' | 'fail'
  readonly by: string
  readonly by_email: string
  readonly at: string
}

export const saidWords: Readonly<Record<Resolution['outcome'], string>> = {
  done: 'said that it happened',
  retry: 'said that it did not happen, so it was made again',
  fail: 'counted it as failed',
}
