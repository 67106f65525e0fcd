import '../stack/child.ts'
