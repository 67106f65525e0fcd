import { ToolError } from '../executor.ts'

/** An id, or the short id that links have. */
const id = /^(?:[\da-f]{24}|[\dA-Za-z]{8})$/

const idOf = (kind: 'b' | 'c', text: string): string | null => {
  const link = new RegExp(`^https://trello\\.com/${kind}/([\\dA-Za-z]{8})(?:[/?#][!-~]*)?$`).exec(text)
  const found = link?.[1] ?? text
  return id.test(found) ? found : null
}

function required(found: string | null, name: string): string {
  if (found !== null) return found
  throw new ToolError('invalid_params', `\`${name}\` must be an id, or a link of \`trello.com\` to it`, {
    retryable: false,
  })
}

/** The id of the board that a text names: an id, or `https://trello.com/b/<id>/…`. Throws ToolError `invalid_params`. */
export const boardIdOf = (text: string): string => required(idOf('b', text), 'board')

/** The id of the card that a text names: an id, or `https://trello.com/c/<id>/…`. Throws ToolError `invalid_params`. */
export const cardIdOf = (text: string): string => required(idOf('c', text), 'card')
