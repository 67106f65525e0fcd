import * as ids from '../../policy/readers/trello-ids.ts'
import { invalidParams } from '../kit/executor.ts'

function required(found: string | null, name: string): string {
  if (found !== null) return found
  throw invalidParams(`\`${name}\` must be an id, or a link of \`trello.com\` to it`)
}

/**
 * Returns the id of the board that a text names. Rules read the text in the same way. Throws ToolError
 * `invalid_params`.
 */
export const boardIdOf = (text: string): string => required(ids.boardIdOf(text), 'board')

/**
 * Returns the id of the card that a text names. Rules read the text in the same way. Throws ToolError `invalid_params`.
 */
export const cardIdOf = (text: string): string => required(ids.cardIdOf(text), 'card')
