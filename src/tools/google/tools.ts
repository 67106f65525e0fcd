import { z } from 'zod'
import { quoted } from '../kit/preview.ts'
import { byName, defineTool, readsInternal } from '../kit/tool.ts'

const common = { connection: 'google', timeoutSeconds: 60 } as const
const reads = { ...common, ...readsInternal } as const
/** Other people can read a shared document, so writing into one is a public write. */
const writes = {
  ...common,
  sideEffect: 'write',
  reversible: 'by hand',
  outputLabels: [],
  categories: ['public_writes'],
  risk: 'medium',
  repeat: 'findable',
} as const

const file = (what: string) => z.string().min(1).max(2000).describe(`Link or file id of the ${what}.`)
const cell = z.union([z.string(), z.number(), z.boolean(), z.null()])
const rows = z.array(z.array(cell).max(1000)).describe('Rows of cells.')
const range = z
  .string()
  .min(1)
  .max(300)
  .optional()
  .describe('In A1 notation, e.g. `Sheet1!A1:D20`; default: the sheet of the link, or the first one.')
const time = z.string().min(1).max(40)

/** Invitations of an event are messages to people. */
export const calendar = byName(
  defineTool({
    ...common,
    name: 'calendar_create_event',
    description:
      'Creates an event and invites its attendees. Default: the next business day at 10:00 in the calendar’s time zone.',
    sideEffect: 'egress',
    reversible: 'no',
    preview: ({ title, attendees }) => ({
      title: `Create the event ${quoted(title)}${attendees === undefined ? '' : ` and invite ${[attendees].flat().join(', ')}`}`,
    }),
    outputLabels: [],
    params: z.strictObject({
      title: z.string().min(1).max(1000),
      start: time.optional().describe('ISO 8601, with or without an offset.'),
      duration_minutes: z
        .int()
        .min(1)
        .max(14 * 24 * 60)
        .optional()
        .describe('Default 30.'),
      attendees: z
        .union([z.string().min(1).max(32_000), z.array(z.string().min(1).max(1000)).min(1).max(200)])
        .optional()
        .describe('`me`, an address, several separated by comma or semicolon, or a list.'),
      description: z.string().max(8000).optional(),
      location: z.string().max(1000).optional(),
      calendar: z.string().min(1).max(300).optional().describe('Calendar id; default: the main calendar.'),
      video_meeting: z.boolean().optional().describe('Adds a link to a video meeting; default false.'),
    }),
    places: { calendar: 'google_calendar' },
    people: ['attendees'],
    defaults: { calendar: 'primary', duration_minutes: 30, video_meeting: false },
    freeTexts: ['title', 'attendees', 'description', 'location'],
    output: z.strictObject({
      event_id: z.string(),
      url: z.string(),
      start: z.string(),
      end: z.string(),
      meeting_url: z.string().nullable(),
    }),
    categories: ['external_comm'],
    // An invitation is a message to a person.
    risk: 'high',
    constraints: {
      allowed_domains: { attendees: 'recipients', calendar: 'calendar' },
      max_message_length: { description: 'message' },
      read_only: {},
    },
    precondition: { of: 'the start of the event or the Google account', check: 'call' },
    mark: { where: 'its id', of: (digest) => `cs${digest}` },
    repeat: 'findable',
    // The request begins at most 10 s after the point of no return, and takes at most 30 s with its answer.
    findableAfterSeconds: 60,
  }),
)

export const tools = byName(
  defineTool({
    ...reads,
    name: 'docs_read',
    description: 'Reads the text of a Google document.',
    params: z.strictObject({ document: file('document') }),
    places: { document: 'google_file' },
    output: z.strictObject({ document_id: z.string(), title: z.string(), text: z.string(), url: z.string() }),
  }),

  defineTool({
    ...writes,
    name: 'docs_create',
    description: 'Creates a Google document.',
    preview: (params) => ({ title: `Create the document ${quoted(params.title)}` }),
    params: z.strictObject({
      title: z.string().min(1).max(1000),
      content: z.string().max(1_000_000).describe('The text, as Markdown.'),
      folder: file('folder').optional(),
    }),
    places: { folder: 'google_file' },
    // Google's name for the top folder of an account's own Drive.
    defaults: { folder: 'root' },
    freeTexts: ['title', 'content'],
    output: z.strictObject({ document_id: z.string(), url: z.string() }),
    constraints: {
      allowed_domains: { folder: 'audience' },
      max_message_length: { content: 'message' },
      read_only: {},
    },
    precondition: { of: 'the folder, who can read it, or the Google account', check: 'before' },
    // Drive must index a new file before a search finds it.
    findableAfterSeconds: 300,
    mark: { where: 'a property that only Countersign sees', of: (digest) => digest },
  }),

  defineTool({
    ...reads,
    name: 'sheets_read',
    description: 'Reads rows of a Google sheet.',
    params: z.strictObject({ spreadsheet: file('spreadsheet'), range }),
    places: { spreadsheet: 'google_file' },
    output: z.strictObject({
      spreadsheet_id: z.string(),
      range: z.string(),
      rows,
      records: z
        .array(z.record(z.string(), cell))
        .nullable()
        .describe(
          'The rows below the first one as objects, named by the first one; null for more than 10,000 rows, 200 columns or 80,000 cells.',
        ),
    }),
  }),

  defineTool({
    ...writes,
    name: 'sheets_append',
    description: 'Adds rows below the last row of a Google sheet. Text stays text: it is no formula.',
    preview: (params) => ({
      title: `Add ${params.rows.length === 1 ? 'a row' : `${params.rows.length} rows`} to the sheet ${params.spreadsheet}`,
      fields: { spreadsheet: params.spreadsheet, range: params.range, rows: params.rows },
    }),
    params: z.strictObject({ spreadsheet: file('spreadsheet'), range, rows: rows.min(1).max(10_000) }),
    places: { spreadsheet: 'google_file' },
    freeTexts: ['rows'],
    output: z.strictObject({
      spreadsheet_id: z.string(),
      sheet: z.string().describe('The name of the sheet.'),
      rows: z.int(),
    }),
    constraints: { allowed_domains: { spreadsheet: 'audience' }, read_only: {} },
    precondition: {
      of: 'the name of the spreadsheet or sheet, its first row, who can read it, or the Google account',
      check: 'before',
    },
    // Google works on a request for at most 180 s, which may arrive up to 40 s after the point of no return.
    findableAfterSeconds: 240,
    mark: { where: 'an entry in the metadata of the spreadsheet', of: (digest) => digest.slice(0, 12) },
    crashLeaves: 'a search that begins 15 minutes after the request proves nothing: then a person decides',
  }),

  defineTool({
    ...reads,
    name: 'drive_search',
    description: 'Searches files in Google Drive by words in their name or text.',
    params: z.strictObject({
      query: z.string().min(1).max(1000),
      limit: z.int().min(1).max(100).optional().describe('Maximum number of files; default 20.'),
    }),
    defaults: { limit: 20 },
    freeTexts: ['query'],
    output: z.strictObject({
      files: z.array(
        z.strictObject({ id: z.string(), name: z.string(), media_type: z.string(), url: z.string() }),
      ),
      incomplete: z.boolean().describe('Google did not search everywhere: files may be missing.'),
    }),
  }),
)
