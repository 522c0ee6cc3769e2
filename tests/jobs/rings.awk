# Files of 12 rings of 5 atoms, some with a bond of another kind, as examples/molecules.c reads them: A,
# graph_labels, … behind the path `to`. Labels are not 0, 1, ….
BEGIN {
    for (g = 0; g < 12; g++) {
        print g % 2 ? 7 : -1 >(to "graph_labels.txt")
        for (i = 0; i < 5; i++) {
            a = 5 * g + i + 1
            b = 5 * g + (i + 1) % 5 + 1
            print g + 1 >(to "graph_indicator.txt")
            print (i == 2 && g % 2) + 4 >(to "node_labels.txt")
            print a ", " b "\n" b ", " a >(to "A.txt")
            print (i == 4) "\n" (i == 4) >(to "edge_labels.txt")
        }
    }
}
