import '../contract/shape.ts'
