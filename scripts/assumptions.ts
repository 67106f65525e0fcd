/*
 * What Countersign takes as given about services, and no stand-in on this machine can show. Each has the page of the vendor
 * that says it, or says that there is none.
 */

interface Assumption {
  readonly service: string
  readonly what: string
  /** Address of the vendor's page; null: no page says it. */
  readonly page: string | null
}

const google = 'https://developers.google.com/workspace'

export const assumptions: readonly Assumption[] = [
  {
    service: 'Google Calendar',
    what: 'An event can be read by its id 60 s after its request was sent, if Google has made it. A taken id is not always reported.',
    page: `${google}/calendar/api/v3/reference/events`,
  },
  {
    service: 'Google Calendar',
    what: 'A list of events names the time zone of the calendar, also with the scope `calendar.events` alone.',
    page: `${google}/calendar/api/v3/reference/events/list`,
  },
  {
    service: 'Google Drive',
    what: 'The search finds a new file by its properties within 300 s. Google names no time.',
    page: null,
  },
  {
    service: 'Google Drive',
    what: 'A folder that a person has made needs the scope `drive` for a new document in it; `drive.file` reaches only files of the client itself.',
    page: `${google}/drive/api/guides/api-specific-auth`,
  },
  {
    service: 'Google Sheets',
    what: 'Either all parts of a `batchUpdate` are carried out, or none.',
    page: `${google}/sheets/api/limits`,
  },
  {
    service: 'Google Sheets',
    what: 'Google works on one request for at most 180 s.',
    page: `${google}/sheets/api/limits`,
  },
  {
    service: 'Google Sheets',
    what: 'A metadata id is taken once in a spreadsheet, and a spreadsheet has room for 30,000 characters of metadata.',
    page: `${google}/sheets/api/guides/metadata`,
  },
  {
    service: 'Google Sheets',
    what: 'Each account may send 60 requests that read and 60 that write in a minute. More is answered with 429, without a pause to wait.',
    page: `${google}/sheets/api/limits`,
  },
  {
    service: 'Resend',
    what: 'A request with a known `Idempotency-Key` gets the first answer for 24 hours, and sends nothing.',
    page: 'https://resend.com/docs/dashboard/emails/idempotency-keys',
  },
  {
    service: 'Resend',
    what: 'A request that was refused or limited leaves no key: the next one with this key sends the mail.',
    page: null,
  },
  {
    service: 'Resend',
    what: 'A key that may only send is answered by 401 `restricted_api_key` where it lacks the right, and a wrong key is not.',
    page: 'https://resend.com/docs/api-reference/errors',
  },
]
