import { z } from 'zod'

/* The fields that are read in Slack's answers. Other fields are ignored. */

const nextPage = z
  .object({ next_cursor: z.string().nullish() })
  .nullish()
  .transform((metadata) => metadata?.next_cursor ?? '')

export const aConversation = z.object({ channel: z.object({ id: z.string() }) })

export const madeMessage = z.object({ channel: z.string(), ts: z.string() })

/** The `id` in the metadata of our messages. Is null for metadata of other apps, which has other fields. */
const metadata = z
  .object({ event_payload: z.object({ id: z.string() }) })
  .transform(({ event_payload }) => event_payload.id)
  .nullish()
  .catch(null)

export const messages = z.object({
  messages: z.array(z.object({ ts: z.string(), thread_ts: z.string().nullish(), metadata })),
  response_metadata: nextPage,
})

const channel = z.object({
  id: z.string(),
  name: z.string(),
  created: z.number(),
  creator: z.string().nullish(),
  is_private: z.boolean().nullish(),
  purpose: z
    .object({ value: z.string() })
    .nullish()
    .transform((purpose) => purpose?.value ?? ''),
  previous_names: z
    .array(z.string())
    .nullish()
    .transform((names) => names ?? []),
})
export type Channel = z.output<typeof channel>
export const channels = z.object({ channels: z.array(channel), response_metadata: nextPage })
export const madeChannel = z.object({ channel: z.object({ id: z.string(), name: z.string() }) })

export const ownAccount = z.object({ user_id: z.string() })
export const done = z.object({ ok: z.literal(true) })
