import { z } from 'zod'
import { placesOf } from '../../policy/tool-places.ts'
import { attachment } from '../kit/attachment-params.ts'
import { readsInternal } from '../kit/reading.ts'
import { quoted } from '../kit/preview.ts'
import { defineTool } from '../kit/tool.ts'

const common = { connection: 'trello', hasExecutor: true, timeoutSeconds: 60 } as const
const reads = { ...common, ...readsInternal } as const
const writes = {
  ...common,
  outputLabels: [],
  categories: [],
  risk: 'medium',
  repeat: 'findable',
  /**
   * The 60 s have two parts. A request takes at most 30 s. The other 30 s are for a slow database commit before the
   * request, and for the time until the service's lists show the new thing.
   */
  findableAfterSeconds: 60,
} as const

const place = (what: string) => z.string().min(1).max(1000).describe(`Id of the ${what}, or a link to it.`)
/**
 * Trello accepts 16,384 characters. The limit leaves 100 characters for a marker. With this marker a call is found
 * again.
 */
const text = z.string().max(16_284)
const card = z.strictObject({
  id: z.string(),
  name: z.string(),
  description: z.string(),
  list: z.string(),
  url: z.string(),
})

export const trelloListCards = defineTool({
  ...reads,
  name: 'trello_list_cards',
  description: 'Lists the open cards of a Trello board.',
  places: placesOf.trello_list_cards,
  params: z.strictObject({
    board: place('board'),
    list: z.string().min(1).max(1000).optional().describe('Only cards of the list with this name or id.'),
  }),
  output: z.strictObject({ cards: z.array(card) }),
})

export const trelloGetCard = defineTool({
  ...reads,
  name: 'trello_get_card',
  description: 'Reads one card of a Trello board.',
  places: placesOf.trello_get_card,
  params: z.strictObject({ card: place('card') }),
  output: card,
})

export const trelloCreateCard = defineTool({
  ...writes,
  precondition: { of: 'the board, the list or the name of one of them', check: 'before' },
  name: 'trello_create_card',
  description: 'Creates a card in a list of a Trello board.',
  sideEffect: 'write',
  reversible: 'by hand',
  preview: (params) => ({ title: `Create the card ${quoted(params.name)} in ${quoted(params.list)}` }),
  places: placesOf.trello_create_card,
  params: z.strictObject({
    board: place('board'),
    list: z.string().min(1).max(1000).describe('Name or id of the list.'),
    name: z.string().min(1).max(1000),
    description: text.optional(),
  }),
  output: z.strictObject({ id: z.string(), url: z.string() }),
  constraints: { max_message_length: { name: 'message', description: 'message' }, read_only: {} },
})

export const trelloComment = defineTool({
  ...writes,
  crashLeaves: 'the file of a comment can remain without the comment: then a person decides',
  precondition: { of: 'the name, list or board of the card', check: 'before' },
  timeoutSeconds: 120,
  name: 'trello_comment',
  description: 'Comments on a card of a Trello board, also with a file.',
  sideEffect: 'egress',
  reversible: 'no',
  preview: (params) => ({ title: `Comment on the card ${params.card}` }),
  places: placesOf.trello_comment,
  params: z.strictObject({ card: place('card'), text: text.min(1), ...attachment }),
  output: z.strictObject({ id: z.string(), url: z.string() }),
  constraints: {
    max_message_length: { text: 'message', attachment_content: 'message' },
    read_only: {},
  },
})
