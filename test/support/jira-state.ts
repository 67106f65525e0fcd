/* What the stand-in for Jira stores. */

export interface Property {
  readonly key: string
  readonly value: unknown
}
export interface JiraComment {
  readonly id: string
  readonly body: unknown
  readonly created: string
  readonly properties: readonly Property[]
}
export interface JiraFile {
  readonly id: string
  readonly filename: string
  readonly created: string
  readonly content: string
}
export interface JiraIssue {
  readonly id: string
  readonly key: string
  /** The key that the issue had before it was moved. Jira still finds the issue by this key. */
  readonly formerKey: string | null
  readonly summary: string
  readonly description: unknown
  readonly labels: readonly string[]
  readonly type: string
  readonly created: string
  status: string
  readonly properties: readonly Property[]
  readonly comments: JiraComment[]
  readonly files: JiraFile[]
}
export interface JiraState {
  readonly projects: string[]
  /** Maps the former key of a project to its present key. Jira still finds a project by a former key. */
  readonly formerProjects: Record<string, string>
  readonly issues: JiraIssue[]
  /** Searches do not find this many of the newest issues yet. */
  unseen: number
  last: number
}
