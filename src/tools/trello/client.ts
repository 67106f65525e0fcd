import type { ToolName } from '../index.ts'
import { invalidParams, ToolError, type ToolCall, type ToolContext } from '../kit/executor.ts'
import { restOf, type Rest } from '../kit/rest-client.ts'
import type { RestErrors } from '../kit/rest-errors.ts'
import { lists } from './forms.ts'
import { boardIdOf } from './place.ts'

const errors: RestErrors = {
  prefix: 'trello',
  title: 'Trello',
  // Trello answers 401 for a refused credential (`invalid …` or `expired …`). Trello also answers 401 if the account
  // may not do the action. The words below belong to the second case.
  forbidden: /^\s*"?unauthorized\b.*\bpermission\b/i,
  refusals: {
    400: ['refused', 'Trello does not take these values: check the ids, and that the text is not empty'],
    403: ['forbidden', 'Trello does not let the connected account do this: make it a member of the board'],
    404: [
      'not_found',
      'Trello has no such board or card, or the connected account may not see it: check the link, and make the account a member of the board',
    ],
    413: ['too_large', 'the text or the file is larger than Trello takes: shorten it'],
  },
}

/**
 * Makes `Rest` for one call to Trello. The client library `trello.js` is not used, because it puts texts and the token
 * into the addresses of requests. Only tests use the library, to check their stand-in for Trello.
 */
export async function trelloOf(
  call: Pick<ToolCall<unknown>, 'organizationId' | 'requester'>,
  context: Pick<ToolContext, 'signal' | 'tools'>,
  tool: ToolName,
): Promise<Rest> {
  return restOf(await context.tools.connection(call, tool, 'trello'), context.signal, errors)
}

/** Returns the names of the open lists of a board. The keys of the map are the ids of the lists. */
export async function listsOf(trello: Rest, board: string): Promise<ReadonlyMap<string, string>> {
  const path = `/1/boards/${boardIdOf(board)}/lists`
  const all = await trello.read(lists, { method: 'GET', path, query: { filter: 'open', fields: 'name' } })
  return new Map(all.map(({ id, name }) => [id, name]))
}

/** Returns the id of the list with this id or name. Throws ToolError `trello_list_not_found` or `invalid_params`. */
export function listIn(all: ReadonlyMap<string, string>, list: string): string {
  if (all.has(list)) return list
  const [id, ...more] = [...all].filter(([, name]) => name === list).map(([each]) => each)
  if (id === undefined)
    throw new ToolError(
      'trello_list_not_found',
      'the board has no open list with this name or id: write the name as the board shows it, capital letters included',
      { retryable: false },
    )
  if (more.length > 0) throw invalidParams('the board has several lists with this name: give the id of one')
  return id
}
