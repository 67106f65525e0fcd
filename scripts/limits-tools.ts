import { maxFileSize } from '../src/tools/files/run.ts'
import { mostBytes as mostModelBytes } from '../src/tools/llm/run.ts'
import { mostBytes as mostSearchBytes } from '../src/tools/search/run.ts'
import { catalog } from '../src/tools/index.ts'
import { maxMailRecipients } from '../src/tools/mail/tools.ts'
import { maxMemoryValueLength } from '../src/tools/memory/tools.ts'
import { mostOfPreview } from '../src/tools/kit/preview.ts'
import { mostSearches } from '../src/tools/search/tools.ts'
import { mostChanges } from '../src/calls/runs/approval-use.ts'
import { type Rows, bytes, count, seconds, toolNumberAt } from './limits-numbers.ts'

/* The limits of the tools. */

/** Most tools have this time limit, so one row names it. */
const usual = 60

export const tools: Rows = [
  ['time of one call of a tool that no other row names', seconds(usual)],
  ...Object.values(catalog)
    .filter(({ timeoutSeconds }) => timeoutSeconds !== usual)
    .map(({ name, timeoutSeconds }) => [`time of one \`${name}\``, seconds(timeoutSeconds)] as const),
  ['file that `file_read` reads', bytes(maxFileSize)],
  ['value of the memory, as JSON', `${count(maxMemoryValueLength)} characters`],
  ['key of the memory', `${count(catalog.memory_get.params.shape.key.maxLength ?? Number.NaN)} characters`],
  ['new rounds of approval after a change of the approved state', count(mostChanges)],
  ['recipients of a mail: `to`, `cc` and `bcc` together', count(maxMailRecipients)],
  ['`subject`, `text` and `html` of a mail', mailTexts()],
  ['a value in the preview of a held call', `${count(mostOfPreview.value)} characters`],
  ['each side of its diff', `${count(mostOfPreview.side)} characters`],
  ['attendees of an event', toolNumberAt('calendar_create_event.attendees.maxItems')],
  [
    'searches, and results, of one `web_search`',
    `${mostSearches}, and ${toolNumberAt('web_search.limit.maximum')}`,
  ],
  ['answer of a search service, unpacked', bytes(mostSearchBytes)],
  ['answer of a language model, unpacked', bytes(mostModelBytes)],
]

function mailTexts(): string {
  const { subject, text, html } = catalog.mail_send.params.shape
  return `${[subject.maxLength, text.maxLength, html.unwrap().maxLength].map((most) => count(most ?? Number.NaN)).join('; ')} characters`
}
