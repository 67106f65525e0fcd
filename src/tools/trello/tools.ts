import { z } from 'zod'
import { quoted } from '../kit/preview.ts'
import { attachment, byName, defineTool, findable, readsInternal, textMark } from '../kit/tool.ts'

const common = { connection: 'trello', timeoutSeconds: 60 } as const
const reads = { ...common, ...readsInternal } as const
const writes = {
  ...common,
  outputLabels: [],
  categories: [],
  risk: 'medium',
  ...findable,
  mark: textMark('the last line of its text'),
} as const

const place = (what: string) => z.string().min(1).max(1000).describe(`Id of the ${what}, or a link to it.`)
/** Trello accepts 16,384. The rest is for a marker, by which a call is found again. */
const text = z.string().max(16_284)
const card = z.strictObject({
  id: z.string(),
  name: z.string(),
  description: z.string(),
  list: z.string(),
  url: z.string(),
})

export const tools = byName(
  defineTool({
    ...reads,
    name: 'trello_list_cards',
    description: 'Lists the open cards of a Trello board.',
    params: z.strictObject({
      board: place('board'),
      list: z.string().min(1).max(1000).optional().describe('Only cards of the list with this name or id.'),
    }),
    places: { board: 'trello_board', list: 'as_written' },
    output: z.strictObject({ cards: z.array(card) }),
  }),

  defineTool({
    ...reads,
    name: 'trello_get_card',
    description: 'Reads one card of a Trello board.',
    params: z.strictObject({ card: place('card') }),
    places: { card: 'trello_card' },
    output: card,
  }),

  defineTool({
    ...writes,
    precondition: { of: 'the board, the list or the name of one of them', check: 'before' },
    name: 'trello_create_card',
    description: 'Creates a card in a list of a Trello board.',
    sideEffect: 'write',
    reversible: 'by hand',
    preview: (params) => ({ title: `Create the card ${quoted(params.name)} in ${quoted(params.list)}` }),
    params: z.strictObject({
      board: place('board'),
      list: z.string().min(1).max(1000).describe('Name or id of the list.'),
      name: z.string().min(1).max(1000),
      description: text.optional(),
    }),
    places: { board: 'trello_board', list: 'as_written' },
    freeTexts: ['name', 'description'],
    output: z.strictObject({ id: z.string(), url: z.string() }),
    constraints: { max_message_length: { name: 'message', description: 'message' }, read_only: {} },
  }),

  defineTool({
    ...writes,
    crashLeaves: 'the file of a comment can remain without the comment: then a person decides',
    precondition: { of: 'the name, list or board of the card', check: 'before' },
    timeoutSeconds: 120,
    name: 'trello_comment',
    description: 'Comments on a card of a Trello board, also with a file.',
    sideEffect: 'egress',
    reversible: 'no',
    preview: (params) => ({ title: `Comment on the card ${params.card}` }),
    params: z.strictObject({ card: place('card'), text: text.min(1), ...attachment }),
    places: { card: 'trello_card' },
    freeTexts: ['text', 'attachment_name', 'attachment_content'],
    output: z.strictObject({ id: z.string(), url: z.string() }),
    constraints: { max_message_length: { text: 'message', attachment_content: 'message' }, read_only: {} },
  }),
)
