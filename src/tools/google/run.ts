import type { Bodies } from '../kit/executor.ts'
import { createEvent, findEvent } from './calendar.ts'
import { createDocument, findDocument, readDocument, searchDrive } from './documents.ts'
import { appendRows, findRows, readRows } from './sheets.ts'
import { audienceOfFolder, audienceOfSpreadsheet, readEvent, readFolder, readSheet } from './state.ts'
import type { calendar, tools } from './tools.ts'

export const run = {
  calendar_create_event: { body: createEvent, find: findEvent, state: readEvent },
  docs_read: { body: readDocument },
  docs_create: { body: createDocument, find: findDocument, state: readFolder, audience: audienceOfFolder },
  sheets_read: { body: readRows },
  sheets_append: { body: appendRows, find: findRows, state: readSheet, audience: audienceOfSpreadsheet },
  drive_search: { body: searchDrive },
} satisfies Bodies<typeof calendar & typeof tools>
