import { z } from 'zod'
import { quoted } from '../kit/preview.ts'
import { attachment, byName, defineTool, findable, readsInternal, textMark } from '../kit/tool.ts'

const common = { connection: 'jira', timeoutSeconds: 60 } as const
const reads = { ...common, ...readsInternal } as const
const writes = {
  ...common,
  outputLabels: [],
  categories: [],
  risk: 'medium',
  repeat: 'findable',
  mark: textMark('its property `countersign.call`, which Jira’s pages do not show'),
} as const
const issue = z
  .string()
  .min(1)
  .max(1000)
  .describe('Key such as `OPS-12`, or a link to the issue on the connected site.')
const text = z.string().max(32_767)
const found = z.strictObject({ key: z.string(), summary: z.string(), status: z.string(), url: z.string() })

export const tools = byName(
  defineTool({
    ...reads,
    name: 'jira_search',
    description: 'Searches issues in Jira.',
    params: z.strictObject({
      query: z.string().min(1).max(4000).describe('In JQL, e.g. `project = OPS and status = Open`.'),
      limit: z.int().min(1).max(100).optional().describe('Maximum number of issues; default 50.'),
    }),
    defaults: { limit: 50 },
    freeTexts: ['query'],
    output: z.strictObject({ issues: z.array(found) }),
  }),

  defineTool({
    ...reads,
    name: 'jira_get_issue',
    description: 'Reads one issue in Jira.',
    params: z.strictObject({ issue }),
    places: { issue: 'jira_issue' },
    output: found.extend({ description: z.string().nullable() }),
  }),

  defineTool({
    ...writes,
    // No `findableAfterSeconds`: Jira's search finds a new issue after a delay, so after 15 minutes a person decides.
    name: 'jira_create_issue',
    description: 'Creates an issue in Jira.',
    precondition: { of: 'the name or key of the project', check: 'before' },
    sideEffect: 'write',
    reversible: 'by hand',
    preview: (params) => ({ title: `Create the issue ${quoted(params.summary)} in ${params.project}` }),
    params: z.strictObject({
      project: z.string().min(1).max(1000).describe('Key of the project, e.g. `OPS`, or a link into it.'),
      summary: z
        .string()
        .min(1)
        .max(255)
        .regex(/^[^\r\n]*$/, 'must be one line'),
      description: text.optional(),
      type: z.string().min(1).max(100).optional().describe('Default `Task`.'),
      labels: z.array(z.string().min(1).max(255)).max(100).optional(),
    }),
    places: { project: 'jira_project' },
    defaults: { type: 'Task' },
    freeTexts: ['summary', 'description', 'type', 'labels'],
    output: z.strictObject({ key: z.string(), url: z.string() }),
    constraints: { max_message_length: { summary: 'message', description: 'message' }, read_only: {} },
  }),

  defineTool({
    ...writes,
    ...findable,
    crashLeaves: 'the file of a comment can remain without the comment: then a person decides',
    precondition: { of: 'the summary or status of the issue', check: 'before' },
    timeoutSeconds: 120,
    name: 'jira_comment',
    description: 'Comments on an issue in Jira, also with a file.',
    sideEffect: 'egress',
    reversible: 'no',
    preview: (params) => ({ title: `Comment on ${params.issue}` }),
    params: z.strictObject({ issue, text: text.min(1), ...attachment }),
    places: { issue: 'jira_issue' },
    freeTexts: ['text', 'attachment_name', 'attachment_content'],
    output: z.strictObject({ id: z.string(), url: z.string() }),
    constraints: { max_message_length: { text: 'message', attachment_content: 'message' }, read_only: {} },
  }),
)
