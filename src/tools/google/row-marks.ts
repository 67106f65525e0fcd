import type { sheets_v4 } from '@googleapis/sheets'
import type { Look, ToolCall } from '../kit/executor.ts'
import { digestOf } from '../kit/marker.ts'

/*
 * One request sends the rows and the mark of their call to Google. Google carries out the whole request or nothing. The
 * mark is a developer metadata entry of the spreadsheet. We choose the id of the mark, and Google refuses an id that is
 * taken. So the same request does not add the rows twice, and the mark proves that the rows were added.
 *
 * A spreadsheet has room for 30,000 characters of metadata, which is about 1,500 marks. So each call removes marks that
 * nobody looks for any more.
 */

type Keyed = Pick<ToolCall<unknown>, 'idempotencyKey'>

export interface Mark {
  readonly id: number
  /** 12 characters that name the call, followed by the minute in which the mark was made. */
  readonly value: string
}

/** The key of each mark's metadata entry. The key is short, because each mark uses up room for the key. */
const key = 'cs'
const nameLength = 12
const keptMinutes = 25
/**
 * Until this many seconds after the call, a missing mark proves that the rows were not added. Later, another call may
 * have removed the mark. The time is shorter than `keptMinutes`, because the clocks of workers may differ.
 */
const safeSeconds = 15 * 60
/** One call removes at most this many marks. */
const mostRemoved = 200

const nameOf = (call: Keyed): string => digestOf(call).slice(0, nameLength)
const minute = (): number => Math.floor(Date.now() / 60_000)

/** Selects the marks of all calls. */
export const readMarks: sheets_v4.Schema$DeveloperMetadataLookup = { metadataKey: key }

export const markOfRows = (call: Keyed): sheets_v4.Schema$DeveloperMetadata => ({
  metadataId: Number.parseInt(digestOf(call).slice(-8), 16) & 0x7fffffff || 1,
  metadataKey: key,
  metadataValue: `${nameOf(call)}${minute().toString(36)}`,
  location: { spreadsheet: true },
  visibility: 'DOCUMENT',
})

export const madeBy = (call: Keyed, marks: readonly Mark[]): boolean =>
  marks.some(({ value }) => value.startsWith(nameOf(call)))

/** Returns true as long as no other call can have removed this call's mark. */
export const isSafeToLook = ({ sentSecondsAgo }: Look): boolean => sentSecondsAgo < safeSeconds

/** Returns the ids of marks that are so old that no attempt looks for them. */
export const marksToRemove = (marks: readonly Mark[]): readonly number[] =>
  marks
    .filter(({ value }) => {
      const made = /^[\da-f]{12}([\da-z]{1,8})$/.exec(value)?.[1]
      return made !== undefined && Number.parseInt(made, 36) < minute() - keptMinutes
    })
    .map(({ id }) => id)
    .slice(0, mostRemoved)
