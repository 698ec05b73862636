"""Labels of the nodes of trees and graphs."""
