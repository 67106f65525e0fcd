import * as ids from '../../../policy/readers/trello-ids.ts'
import { invalidParams } from '../executor.ts'

function required(found: string | null, name: string): string {
  if (found !== null) return found
  throw invalidParams(`\`${name}\` must be an id, or a link of \`trello.com\` to it`)
}

/** The id of the board that a text names, read as rules read it. Throws ToolError `invalid_params`. */
export const boardIdOf = (text: string): string => required(ids.boardIdOf(text), 'board')

/** The id of the card that a text names, read as rules read it. Throws ToolError `invalid_params`. */
export const cardIdOf = (text: string): string => required(ids.cardIdOf(text), 'card')
