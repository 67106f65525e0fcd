import { z } from 'zod'
import { listOf } from '../kit/bounded-list.ts'

/* The fields that are read in Jira's answers. Other fields are ignored. */

/** Each key must match a pattern, because keys go into links and back into requests. */
const key = z.string().regex(/^[A-Z][A-Z\d_]{0,254}-\d{1,10}$/)
const id = z.string().regex(/^\d{1,19}$/)

export const madeIssue = z.object({ key })
export const madeComment = z.object({ id })

const listedFields = { summary: z.string(), status: z.object({ name: z.string() }) }

/** The property that holds the mark of a call. The issue or comment that the call has made carries this property. */
export const markProperty = 'countersign.call'
const mark = z.object({ id: z.string() })

export const anIssue = z.object({
  key,
  fields: z.object({ ...listedFields, description: z.string().nullish() }),
})
export const aProject = z.object({
  id,
  key: z.string().regex(/^[A-Z][A-Z\d_]{0,254}$/),
  name: z.string(),
})
export const foundIssues = z.object({
  issues: listOf(z.object({ key, fields: z.object(listedFields) })),
  nextPageToken: z.string().max(10_000).nullish(),
})
export const markedIssues = z.object({
  issues: listOf(
    z.object({
      key,
      // A property with other contents was not made by Countersign, so it is ignored.
      properties: z.object({ [markProperty]: mark.optional().catch(undefined) }).nullish(),
    }),
  ),
  nextPageToken: z.string().max(10_000).nullish(),
})

/** Jira answers an upload with the list of the files that it has stored. */
export const madeFiles = z.array(z.unknown()).length(1)

/** The list of comments in which a finder looks for the mark of a call. The newest comments come first. */
export const listedComments = z.object({
  comments: listOf(z.object({ id, created: z.string() })),
  total: z.int(),
})
export const markedComments = z.object({
  values: listOf(
    z.object({
      id,
      properties: z
        .array(z.unknown())
        .max(100)
        .transform((all) => all.map((each) => commentMark.safeParse(each).data))
        .nullish(),
    }),
  ),
})
const commentMark = z.object({ key: z.literal(markProperty), value: mark })

/** An issue with its files. Jira allows fewer than 10,000 files for one issue. */
export const withFiles = z.object({
  fields: z.object({
    attachment: listOf(z.object({ filename: z.string(), created: z.string() }), 10_000),
  }),
})
