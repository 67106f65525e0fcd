import { z } from 'zod'
import { byName, defineTool, findable, textMark } from '../kit/tool.ts'

const common = {
  connection: 'slack',
  outputLabels: [],
  ...findable,
  timeoutSeconds: 60,
  // A person can link another account at any time, for which the approval must not be valid.
  precondition: { of: 'the Slack account of the person who runs the workflow', check: 'call' },
} as const

export const tools = byName(
  defineTool({
    ...common,
    mark: textMark('the metadata of the message, which Slack does not show'),
    name: 'slack_send_message',
    description: 'Sends a message to a Slack channel, or to the person who runs the workflow.',
    sideEffect: 'egress',
    reversible: 'no',
    preview: (params) => ({ title: `Send a message to ${params.channel}` }),
    params: z.strictObject({
      channel: z
        .string()
        .min(1)
        .max(500)
        .describe('`#name`, a channel’s id or link, or `@me`: the person who runs the workflow.'),
      text: z.string().min(1).max(40_000).describe('The message, as Slack’s Markdown.'),
      thread_ts: z
        .string()
        .regex(/^\d+\.\d+$/, 'is the `ts` of a message, such as `1700000000.000100`')
        .optional()
        .describe('The `ts` of the message to answer.'),
    }),
    places: { channel: 'channel' },
    freeTexts: ['text'],
    output: z.strictObject({ channel: z.string(), ts: z.string() }),
    categories: ['external_comm'],
    risk: 'high',
    constraints: {
      allowed_channels: { channel: 'channel' },
      max_message_length: { text: 'message' },
      read_only: {},
    },
  }),

  defineTool({
    ...common,
    crashLeaves: 'a channel without its mark or invitation is completed later, or a person decides',
    mark: textMark('the description of the channel'),
    name: 'slack_create_channel',
    description: 'Creates a Slack channel and invites the person who runs the workflow.',
    sideEffect: 'write',
    reversible: 'by hand',
    preview: ({ name, is_private }) => ({
      title: `Create the ${is_private === true ? 'private ' : ''}channel ${name}`,
    }),
    params: z.strictObject({
      name: z
        .string()
        .min(1)
        .max(80)
        .describe('Lower-case letters, digits, `-` and `_`, with or without `#` before it.'),
      is_private: z.boolean().optional().describe('Default false.'),
    }),
    places: { name: 'channel' },
    defaults: { is_private: false },
    freeTexts: ['name'],
    output: z.strictObject({
      channel: z.string(),
      name: z.string(),
      invited: z.boolean().describe('Whether the person who runs the workflow is in the channel.'),
    }),
    // It invites the requester to the new channel.
    categories: ['permission_changes'],
    risk: 'medium',
    constraints: { allowed_channels: { name: 'channel' }, read_only: {} },
  }),
)
