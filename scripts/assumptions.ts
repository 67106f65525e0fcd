/*
 * Assumptions about services that no stand-in on this machine can check. Each assumption has the address of the
 * vendor's page that states it, or says why there is no such page.
 */

interface Assumption {
  readonly service: string
  readonly what: string
  /** Address of the vendor's page that states the assumption; null if no page does. */
  readonly page: string | null
  /** Why no page states the assumption, and what happens if the assumption is wrong. */
  readonly withoutPage?: string
}

const google = 'https://developers.google.com/workspace'
const jira = 'https://developer.atlassian.com/cloud/jira/platform'
const trello = 'https://developer.atlassian.com/cloud/trello/guides/rest-api'

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
    service: 'Google Calendar',
    what: 'The link to a video meeting is made asynchronously. Until then the event has a conference that is `pending`.',
    page: `${google}/calendar/api/v3/reference/events`,
  },
  {
    service: 'Google Calendar',
    what: 'Each account may send about 600 requests in a minute. More is answered with 403 or 429 and was not carried out.',
    page: `${google}/calendar/api/guides/quota`,
  },
  {
    service: 'Google Docs',
    what: 'Each account may send 300 requests that read in a minute. More is answered with 429.',
    page: `${google}/docs/api/limits`,
  },
  {
    service: 'Google Drive',
    what: 'Requests beyond the limits of an account are answered with 403 or 429, and were not carried out.',
    page: `${google}/drive/api/guides/limits`,
  },
  {
    service: 'Google Drive',
    what: 'The search finds a new file by its properties within 300 s.',
    page: null,
    withoutPage:
      'Google names no time. If it takes longer, a document whose answer was lost can be made twice.',
  },
  {
    service: 'Google Drive',
    what: 'A folder that a person has made needs the scope `drive` for a new document in it; `drive.file` reaches only files of the client itself.',
    page: `${google}/drive/api/guides/api-specific-auth`,
  },
  {
    service: 'Google Drive',
    what: 'The permissions of a file or folder name everybody who can read it, also through a folder or shared drive above it. A group is named, and its members are not.',
    page: `${google}/drive/api/guides/manage-sharing`,
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
    service: 'Google Sheets',
    what: 'A mark can be found as soon as its request has ended.',
    page: null,
    withoutPage:
      'Google names no delay. If there is one, Google still refuses the second request, because the id of its mark is taken.',
  },
  {
    service: 'GitHub',
    what: 'A person may send 5,000 requests in an hour, and create about 80 things in a minute. More is answered with 403 or 429, often with a pause to wait.',
    page: 'https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api',
  },
  {
    service: 'GitHub',
    what: 'A repository that was renamed or given away answers with a redirect, and never with the contents of another repository.',
    page: 'https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api',
  },
  {
    service: 'GitHub',
    what: 'Lists of issues and comments show a new one within 60 s of its request. The search may need longer and is not asked.',
    page: null,
    withoutPage: 'GitHub names no delay of its lists.',
  },
  {
    service: 'GitHub',
    what: 'An issue that was transferred is not listed by its old repository. Its old address answers with a redirect. A look does not follow it.',
    page: 'https://docs.github.com/en/rest/issues/issues#get-an-issue',
  },
  {
    service: 'Slack',
    what: 'A message to `#name` goes to the channel that has this name now, and to none that had it before.',
    page: null,
    withoutPage:
      'The page of `chat.postMessage` allows a name, and says nothing of former names. The answer names the channel.',
  },
  {
    service: 'Slack',
    what: 'Slack takes about one message a second in each channel. More is answered with 429 and a pause to wait.',
    page: 'https://docs.slack.dev/apis/web-api/rate-limits',
  },
  {
    service: 'Slack',
    what: 'Each method has a limit of its own, from 20 to 100 requests in a minute, for apps of one company or of the Marketplace. Other apps may read the history of a channel once in a minute.',
    page: 'https://docs.slack.dev/apis/web-api/rate-limits',
  },
  {
    service: 'Slack',
    what: 'The history of a channel and the replies of a thread show a new message within 60 s of its request.',
    page: null,
    withoutPage: 'Slack names no delay of the history.',
  },
  {
    service: 'Jira',
    what: 'The search may not show a new issue at once, and no limit is named. So an issue that is not found counts as perhaps made.',
    page: `${jira}/search-and-reconcile/`,
  },
  {
    service: 'Jira',
    what: 'An issue and a comment are stored together with the property in their request.',
    page: `${jira}/rest/v3/api-group-issue-comments/`,
  },
  {
    service: 'Jira',
    what: 'The list of the comments of an issue shows a new one within 60 s of its request.',
    page: null,
    withoutPage: 'Atlassian describes a delay of the search alone.',
  },
  {
    service: 'Jira',
    what: 'An issue that was moved is found by its former keys, and the answer has its present one.',
    page: 'https://support.atlassian.com/migration/kb/migration-of-jiras-historical-keys-for-issues-and-projects',
  },
  {
    service: 'Jira',
    what: 'A request beyond the limits is answered with 429 and was not carried out. `Retry-After` has the pause.',
    page: `${jira}/rate-limiting/`,
  },
  {
    service: 'Trello',
    what: 'The cards of a board can be listed with `since`, `limit`, `filter` and `fields`. The OpenAPI description leaves these out.',
    page: `${trello}/nested-resources/`,
  },
  {
    service: 'Trello',
    what: 'Trello takes key and token in the `Authorization` header, where no proxy logs them.',
    page: `${trello}/authorization/`,
  },
  {
    service: 'Trello',
    what: 'Lists of cards and comments show a new one within 60 s of its request.',
    page: null,
    withoutPage: 'Trello names no delay of its lists.',
  },
  {
    service: 'Trello',
    what: 'A card that moves to another board keeps its id, and leaves `createCard` or `moveCardFromBoard` on its board at once. A list leaves `moveListFromBoard`.',
    page: null,
    withoutPage:
      'Atlassian names these actions, and says no more. If it does not hold, a moved card can be made twice.',
  },
  {
    service: 'Trello',
    what: 'A token may send 100 requests in 10 s and a key 300. More is answered with 429, without a pause to wait.',
    page: `${trello}/rate-limits/`,
  },
  {
    service: 'Resend',
    what: 'A request with a known `Idempotency-Key` gets the first answer for 24 hours, and sends nothing.',
    page: 'https://resend.com/docs/dashboard/emails/idempotency-keys',
  },
  {
    service: 'Resend',
    what: 'A team may send 2 requests in a second. More is answered with 429 and a pause to wait.',
    page: 'https://resend.com/docs/api-reference/introduction',
  },
  {
    service: 'Resend',
    what: 'A request that was refused or limited leaves no key: the next one with this key sends the mail.',
    page: null,
    withoutPage:
      'The page on keys describes requests that were carried out. If it does not hold, the refusal comes back and no mail is sent.',
  },
  {
    service: 'Resend',
    what: 'A key that may only send is answered by 401 `restricted_api_key` where it lacks the right, and a wrong key is not.',
    page: 'https://resend.com/docs/api-reference/errors',
  },
]
